"""Analysis of nodes' telemetry: jobs on Spark, a report, alerts. No part of a broker; needs the extra `pipeline`."""
