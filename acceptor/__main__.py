"""`python -m acceptor RUNTIME_DIR INDEX INCARNATION`, started by the supervisor."""

from acceptor.process import main

main()
