"""Examples of programs that use the pipeline's jobs: to be run, read and changed."""
