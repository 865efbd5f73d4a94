"""What the telemetry of nodes says: jobs on Spark, a report, alerts. No part of a broker; the extra `pipeline`."""
