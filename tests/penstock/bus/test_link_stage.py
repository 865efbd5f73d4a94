"""The stages of a link to a shard, and the transitions between them."""

from __future__ import annotations

import pytest

from penstock.bus.link_stage import LINK, LinkEvent, LinkStage
from penstock.states.transitions import IllegalTransition


def test_an_incarnation_is_greeted_before_it_is_up() -> None:
    stage = LinkStage.ABSENT
    for event, following in (
        (LinkEvent.STARTED, LinkStage.GREETING),
        (LinkEvent.HELLO_SENT, LinkStage.AWAITING),
        (LinkEvent.REPORTED, LinkStage.UP),
        (LinkEvent.DIED, LinkStage.DOWN),
        (LinkEvent.STARTED, LinkStage.GREETING),
    ):
        stage = LINK.after(stage, event)
        assert stage is following


@pytest.mark.parametrize("stage", [stage for stage in LinkStage if stage is not LinkStage.AWAITING])
def test_only_an_awaited_report_is_a_first_one(stage: LinkStage) -> None:
    with pytest.raises(IllegalTransition):
        LINK.after(stage, LinkEvent.REPORTED)


@pytest.mark.parametrize("stage", LinkStage)
def test_a_shard_may_be_removed_and_a_new_one_started_at_any_time(stage: LinkStage) -> None:
    assert LINK.after(stage, LinkEvent.REMOVED) is LinkStage.ABSENT
    assert LINK.after(stage, LinkEvent.STARTED) is LinkStage.GREETING
