"""Where artifacts live: here the content-addressed blobs of this machine."""
