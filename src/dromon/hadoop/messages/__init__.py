"""The messages of Hadoop RPC and YARN as tables, one file per subject. Data only."""
