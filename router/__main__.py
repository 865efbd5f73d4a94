"""`python -m router RUNTIME_DIR INDEX INCARNATION`, started by the supervisor."""

from router.process import main

main()
