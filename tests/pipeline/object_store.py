"""A file system with the promises of an object store (`ObjectStore.java`), compiled by the Janino that Spark brings."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

SOURCE: Final = Path(__file__).with_name("ObjectStore.java")
CLASS: Final = "penstock.ObjectStore"
SCHEME: Final = "store"


class ObjectStore:
    """The file system `store:` of a session: local files under `store:///`."""

    def __init__(self, spark: SparkSession) -> None:
        java: Any = spark._jvm
        configuration = spark.sparkContext._jsc.hadoopConfiguration()
        self.compiler = java.org.codehaus.janino.SimpleCompiler()
        self.compiler.setParentClassLoader(configuration.getClassLoader())
        self.compiler.cook(SOURCE.read_text())
        configuration.setClassLoader(self.compiler.getClassLoader())
        configuration.set(f"fs.{SCHEME}.impl", CLASS)
        # Hadoop keeps this instance for all of the session's threads, whatever their class loaders
        self.java = java.org.apache.hadoop.fs.FileSystem.get(java.java.net.URI(f"{SCHEME}:///"), configuration)

    def die_at(self, step: str, path: str) -> None:
        """Let the process that writes die at its next step of that kind on such a path, a regular expression. Then
        nothing can be written until `revive`.
        """
        self.java.dieAt(step, path)

    def revive(self) -> bool:
        """Let a process write again; return whether the one before has died."""
        return bool(self.java.revive())

    def write_classes(self, directory: Path) -> None:
        """Write the compiled classes to a directory for a class path."""
        compiled = self.compiler.getBytecodes()
        for name in compiled:
            path = directory / f"{name.replace('.', '/')}.class"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(compiled[name])


def uri(path: Path) -> str:
    """Return the URI of an absolute path in the store."""
    return f"{SCHEME}://{path}"
