"""`python -m shard RUNTIME_DIR INDEX INCARNATION`, started by the supervisor."""

from shard.process import main

main()
