"""What an HTTP service has answered about users, kept for a while.

All answers are forgotten together, `cache_seconds` after the first of them: then the `generation` changes, routes are
made anew, and rights asked again when they are needed. A failed call counts as a refusal, for a second.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from acceptor.gates.rights import Undecided
from acceptor.logins.background import Background, at_once
from acceptor.logins.web import Answer, Web, WebError
from penstock.node.logs import get_logger
from penstock.settings.auth import HttpAuthSettings

log = get_logger()

ANSWERS_MOST = 65_536
"""Answers kept; a client that makes up names empties the cache, and cannot fill memory."""
WAITING_MOST = 10_000
"""Questions under way; more are refused."""
FAILED_SECONDS = 1.0
OK = 200
ALLOW, DENY = "allow", "deny"


class Question(NamedTuple):
    """A question about a user: the URL, and its fields in order."""

    url: str
    fields: tuple[tuple[str, str], ...]


class Verdict(NamedTuple):
    """An answer: whether the service allows it, and the tags of the user. `problem` says why there is none."""

    allows: bool
    tags: frozenset[str] = frozenset()
    problem: str = ""


Answered = Callable[[Verdict], None]


class HttpAnswers:
    """Asks the service. The process sets `background`; `clock` gives seconds."""

    def __init__(self, settings: HttpAuthSettings, clock: Callable[[], float]) -> None:
        self.background: Background = at_once
        self.generation = 0
        self._method = settings.http_method.upper()
        self._cache_seconds = settings.cache_seconds
        self._clock = clock
        self._web = Web(settings.authorities, settings.timeout)
        self._known: dict[Question, bool] = {}
        self._until = math.inf
        self._waiting: dict[Question, list[Answered]] = {}

    def allows(self, question: Question) -> bool:
        """Whether the service allows what is asked. `Undecided` if it has to be asked first."""
        known = self._known.get(question)
        if known is None:
            raise Undecided(partial(self._ask_and_keep, question))
        return known

    def ask(self, question: Question, answered: Answered) -> None:
        """Ask a question, and call back with the answer, which is not kept. Equal ones under way are asked once."""
        if question in self._waiting:
            self._waiting[question].append(answered)
        elif len(self._waiting) >= WAITING_MOST:
            answered(Verdict(False, problem="too many questions at once"))
        else:
            self._waiting[question] = [answered]
            self.background(partial(self._call, question), partial(self._came, question))

    def expire(self) -> bool:
        """Forget all answers if they are too old; return whether that was so. Called once a second."""
        if self._clock() < self._until:
            return False
        self._known.clear()
        self._until = math.inf
        self.generation += 1
        return True

    def _ask_and_keep(self, question: Question, resume: Callable[[Any], None]) -> None:
        def keep(verdict: Verdict) -> None:
            if len(self._known) >= ANSWERS_MOST:
                self._known.clear()
            self._known[question] = verdict.allows
            lasts = FAILED_SECONDS if verdict.problem else self._cache_seconds
            self._until = min(self._until, self._clock() + lasts)
            resume(None)

        self.ask(question, keep)

    def _call(self, question: Question) -> Verdict:
        try:
            return verdict_of(self._web.call(question.url, self._method, dict(question.fields)))
        except WebError as error:
            return Verdict(False, problem=str(error))

    def _came(self, question: Question, verdict: Verdict) -> None:
        if verdict.problem:
            log.warning("the service of auth.http gives no answer", problem=verdict.problem)
        for answered in self._waiting.pop(question):
            answered(verdict)


def verdict_of(answer: Answer) -> Verdict:
    """Return the verdict of an answer: `allow`, perhaps with tags, or `deny`, in any case."""
    if answer.status != OK:
        return Verdict(False, problem=f"status {answer.status}")
    word, *tags = answer.body.decode("utf-8", "replace").split() or [""]
    if word.lower() == ALLOW:
        return Verdict(True, frozenset(tags))
    return Verdict(False, problem="" if word.lower() == DENY else "an answer that is neither allow nor deny")


def question(url: str, fields: Mapping[str, str]) -> Question:
    """Return a question."""
    return Question(url, tuple(fields.items()))
