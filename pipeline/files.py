"""Files on any file system that Spark reads (local, HDFS, object stores), through Hadoop's own classes."""

from __future__ import annotations

import uuid
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
        path, system = self._of(pattern)
        try:
            found = system.globStatus(path)
            if not found:
                return []
            paths = self.java.org.apache.hadoop.fs.FileUtil.stat2Paths(found)
            # as one text: fetching each path costs a round trip
            return str(self.java.scala.runtime.ScalaRunTime.genericWrapArray(paths).mkString("\n")).split("\n")
        except Exception as error:
            raise PipelineError(f"{pattern} cannot be listed: {reason(error)}") from error

    def exists(self, name: str) -> bool:
        """Whether the file or directory exists."""
        path, system = self._of(name)
        return bool(system.exists(path))

    def size(self, name: str) -> int:
        """Return the bytes of a file, or of all files in a directory; 0 if it does not exist."""
        path, system = self._of(name)
        return int(system.getContentSummary(path).getLength()) if system.exists(path) else 0

    def read(self, name: str) -> str | None:
        """Return the text of a small file; None if it does not exist. DamagedError if it differs from its checksum."""
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
            kind = DamagedError if is_instance_of(self.gateway, error.java_exception, DAMAGED) else PipelineError
            raise kind(f"{name} cannot be read: {reason(error)}") from error

    def parquet_rows(self, name: str) -> int:
        """Return the number of rows of a Parquet file by its footer."""
        path, _ = self._of(name)
        hadoop = self.java.org.apache.parquet.hadoop
        try:
            source = hadoop.util.HadoopInputFile.fromPath(path, self.configuration)
            reader = hadoop.ParquetFileReader.open(source)
            try:
                return int(reader.getRecordCount())
            finally:
                reader.close()
        except Exception as error:
            raise PipelineError(f"{name} cannot be read: {reason(error)}") from error

    def write(self, name: str, data: bytes) -> None:
        """Write a new file. PipelineError if there is one of that name."""
        path, system = self._of(name)
        try:
            sink = system.create(path, False)
            try:
                for first in range(0, len(data), WRITE_BYTES):
                    sink.write(bytearray(data[first : first + WRITE_BYTES]))
            finally:
                sink.close()
        except Exception as error:
            raise PipelineError(f"{name} cannot be written: {reason(error)}") from error

    def replace(self, name: str, data: bytes) -> None:
        """Write a small file at once: readers see the old or the new contents."""
        aside = f"{name.rpartition('/')[0]}/_new-{uuid.uuid4().hex}"
        self.write(aside, data)
        hadoop = self.java.org.apache.hadoop.fs
        kind = getattr(hadoop, "Options$Rename")
        options = self.gateway.new_array(kind, 1)
        options[0] = kind.OVERWRITE
        try:
            source, target = self._of(aside)[0], self._of(name)[0]
            hadoop.FileContext.getFileContext(source.toUri(), self.configuration).rename(source, target, options)
        except Exception as error:
            raise PipelineError(f"{name} cannot be replaced: {reason(error)}") from error

    def make_directory(self, name: str) -> None:
        """Create a directory and its parents; existing ones are kept."""
        path, system = self._of(name)
        if not system.mkdirs(path):
            raise PipelineError(f"{name} cannot be created")

    def rename(self, name: str, target: str) -> None:
        """Rename a file or directory."""
        path, system = self._of(name)
        if not system.rename(path, self.java.org.apache.hadoop.fs.Path(target)):
            raise PipelineError(f"{name} cannot be renamed to {target}")

    def delete(self, name: str) -> None:
        """Delete a file, or a directory with its contents, if it exists."""
        path, system = self._of(name)
        system.delete(path, True)

    def _of(self, name: str) -> tuple[Any, Any]:
        try:
            path = self.java.org.apache.hadoop.fs.Path(name)
            return path, path.getFileSystem(self.configuration)
        except Exception as error:
            raise PipelineError(f"{name} is on no file system that Spark knows: {reason(error)}") from error
