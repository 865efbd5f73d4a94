"""The section `first_user` of the settings."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from penstock.settings.values import FilePath


class FirstUserSettings(BaseModel):
    """A user whom a new node has in the place of `guest`: an administrator, with all permissions in the vhost `/`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str | None = Field(
        default=None,
        min_length=1,
        max_length=255,
        description="name of the user; one that exists keeps its tags and permissions",
        json_schema_extra={"default_text": "none"},
    )
    password_file: FilePath | None = Field(
        default=None,
        description="file with the password, in one line; read at each start, when the user is made if it is missing, "
        "and gets this password if it has another one",
        json_schema_extra={"default_text": "none"},
    )

    @model_validator(mode="after")
    def _name_and_password(self) -> Self:
        if (self.name is None) != (self.password_file is None):
            raise ValueError("first_user needs both name and password_file")
        return self
