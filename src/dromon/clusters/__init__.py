"""What an administrator sets on a cluster: the site file, and what is made of it.

Text in, values out: files are read and written by the command line. No cluster is asked.
"""
