"""HDFS and YARN from Hadoop's own jars: `python -m testbeds.yarn up`."""
