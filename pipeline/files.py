"""Files on any file system that Spark reads (local, HDFS, object stores), through Hadoop's own classes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError, reason

WRITE_BYTES = 1 << 20
"""Bytes passed to Java at once."""
NOT_FOUND: Final = "java.io.FileNotFoundException"
DAMAGED: Final = "org.apache.hadoop.fs.ChecksumException"


class DamagedError(PipelineError):
    """A file differs from its checksum: its writer died, or its disk has lost something."""


class Files:
    """The file systems that a session knows. Paths are texts: absolute paths or URIs. Failures raise PipelineError."""

    def __init__(self, spark: SparkSession) -> None:
        self.java: Any = spark._jvm
        self.gateway: Any = spark.sparkContext._gateway
        self.configuration: Any = spark.sparkContext._jsc.hadoopConfiguration()

    def matching(self, pattern: str) -> list[str]:
        """Return all files and directories that match a glob."""
        with failing(f"{pattern} cannot be listed"):
            path, system = self._of(pattern)
            found = system.globStatus(path)
            if not found:
                return []
            paths = self.java.org.apache.hadoop.fs.FileUtil.stat2Paths(found)
            # as one text: fetching each path costs a round trip
            return str(self.java.scala.runtime.ScalaRunTime.genericWrapArray(paths).mkString("\n")).split("\n")

    def size(self, name: str) -> int:
        """Return the bytes of a file, or of all files in a directory; 0 if it does not exist."""
        with failing(f"{name} cannot be listed"):
            path, system = self._of(name)
            return int(system.getContentSummary(path).getLength()) if system.exists(path) else 0

    def read(self, name: str) -> str | None:
        """Return the text of a small file; None if it does not exist. DamagedError if it differs from its checksum."""
        with failing(f"{name} cannot be read"):
            path, system = self._of(name)
            try:
                source = system.open(path)
                try:
                    return str(self.java.org.apache.commons.io.IOUtils.toString(source, "UTF-8"))
                finally:
                    source.close()
            except Py4JJavaError as error:
                if is_instance_of(self.gateway, error.java_exception, NOT_FOUND):
                    return None
                if is_instance_of(self.gateway, error.java_exception, DAMAGED):
                    raise DamagedError(f"{name} is damaged: {reason(error)}") from error
                raise

    def parquet_rows(self, name: str) -> int:
        """Return the number of rows of a Parquet file by its footer."""
        with failing(f"{name} cannot be read"):
            path, _ = self._of(name)
            hadoop = self.java.org.apache.parquet.hadoop
            reader = hadoop.ParquetFileReader.open(hadoop.util.HadoopInputFile.fromPath(path, self.configuration))
            try:
                return int(reader.getRecordCount())
            finally:
                reader.close()

    def write(self, name: str, data: bytes) -> None:
        """Write a new file. PipelineError if there is one of that name."""
        with failing(f"{name} cannot be written"):
            path, system = self._of(name)
            sink = system.create(path, False)
            try:
                for first in range(0, len(data), WRITE_BYTES):
                    sink.write(bytearray(data[first : first + WRITE_BYTES]))
            finally:
                sink.close()

    def make_directory(self, name: str) -> None:
        """Create a directory and its parents; existing ones are kept."""
        with failing(f"{name} cannot be created"):
            path, system = self._of(name)
            if not system.mkdirs(path):
                raise PipelineError(f"{name} cannot be created")

    def move(self, name: str, target: str) -> None:
        """Move a file to a name that is free, in a directory that exists. On an object store this is a copy and a
        deletion: others may see a part of the copy, or both files.
        """
        with failing(f"{name} cannot be moved to {target}"):
            path, system = self._of(name)
            if not system.rename(path, self.java.org.apache.hadoop.fs.Path(target)):
                raise PipelineError(f"{name} cannot be moved to {target}")

    def delete(self, name: str) -> None:
        """Delete a file, or a directory with its contents, if it exists."""
        with failing(f"{name} cannot be deleted"):
            path, system = self._of(name)
            system.delete(path, True)

    def _of(self, name: str) -> tuple[Any, Any]:
        with failing(f"{name} is on no file system that Spark knows"):
            path = self.java.org.apache.hadoop.fs.Path(name)
            return path, path.getFileSystem(self.configuration)


@contextmanager
def failing(how: str) -> Iterator[None]:
    """Raise PipelineError for an error of Java: how the operation failed, and why."""
    try:
        yield
    except PipelineError:
        raise
    except Exception as error:
        raise PipelineError(f"{how}: {reason(error)}") from error
