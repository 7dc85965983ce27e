"""The fields of a sample's record about its judges, written and read: replies and verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain

from mmie_tasks.core.verdict import Scored, Verdict, Verdicts
from mmie_tasks.record.expected import read_expected
from mmie_tasks.record.fields import BadRecord, Record, field, mapping, optional_text
from mmie_tasks.record.members import MemberResult, combine, disagreement
from mmie_tasks.record.panel import RULES, Panel
from mmie_tasks.record.reply import JudgeReply, JudgeResult, judge_result, read_reply
from mmie_tasks.record.sample import READER_KINDS
from mmie_tasks.record.signature import Signature
from mmie_tasks.record.verdict_row import as_row, verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The verdicts on an answer, and the judges' replies.

    Attributes:
        verdicts: On the benchmark's own scale; of a panel, the combined ones.
        members: The judges that were asked, in the panel's order; one without a panel, none if
            nothing was sent.
        panel: None for a single judge.
    """

    verdicts: Verdicts
    members: tuple[MemberResult, ...] = ()
    panel: Panel | None = None

    @property
    def result(self) -> JudgeResult:
        """The result of the first judge."""
        return self.members[0].result if self.members else JudgeResult()

    @property
    def fields(self) -> Mapping[str, object]:
        """The fields of a sample's record about the judges, ``replies`` of a single judge or
        ``panel`` of several.
        """
        replies = [asdict(reply) for reply in self.result.replies] if self.panel is None else []
        return {"replies": replies, **self.panel_fields}

    @property
    def panel_fields(self) -> Mapping[str, object]:
        """The field ``panel`` of a record: its settings, each judge's replies and verdicts, and
        their disagreement.

        Empty for a single judge. `read_members` reads it.
        """
        if self.panel is None:
            return {}
        spread = disagreement(self.members)
        return {
            "panel": {
                **asdict(self.panel),
                "members": [_member_fields(member) for member in self.members],
                **(asdict(spread) if spread else {"range": None, "sd": None}),
            }
        }


def _member_fields(member: MemberResult) -> dict[str, object]:
    verdicts = member.verdicts
    return {
        "judge": str(member.judge),
        "replies": [asdict(reply) for reply in member.result.replies],
        "official": as_row(verdicts.official),
        "robust": as_row(verdicts.robust),
        "expected": as_row(verdicts.expected, entropy_bits=verdicts.entropy_bits),
    }


def read_replies(record: Record) -> tuple[JudgeReply, ...] | None:
    """The replies in order, of several judges one after the other; None if the log lacks any of
    them or their text.

    Digits that cannot be those of a reply are left out.

    Raises:
        BadRecord: ``replies`` is not a list, or ``panel`` has another form.
    """
    by_judge = [_replies(judge_record) for judge_record in judge_records(record)]
    return None if None in by_judge else tuple(chain.from_iterable(filter(None, by_judge)))


def judge_records(record: Record) -> Sequence[Record]:
    """The parts of a record that have a judge's replies and verdicts: a panel's members, or the
    record itself.

    Raises:
        BadRecord: ``panel`` has another form.
    """
    logged_panel = mapping(record, "panel")
    if not logged_panel:
        return (record,)
    members = field(logged_panel, "members", list, "a list of judges", elements=Mapping)
    if not members:
        raise BadRecord("`panel` has no `members`")
    return members


def read_panel(record: Record) -> Panel | None:
    """The panel that judged a sample; None for a single judge.

    Raises:
        BadRecord: ``panel`` has another form.
    """
    logged_panel = mapping(record, "panel")
    if not logged_panel:
        return None
    rule, min_valid = logged_panel.get("rule"), logged_panel.get("min_valid")
    if rule not in RULES:
        raise BadRecord(f"`rule` of `panel` is none of {', '.join(RULES)}")
    if type(min_valid) is not int or min_valid < 1:
        raise BadRecord("`min_valid` of `panel` is not a number of judges from 1")
    return Panel(rule=rule, min_valid=min_valid)


def read_members(record: Record, full_marks: float) -> tuple[MemberResult, ...]:
    """The judges of a panel with the verdicts that were logged; none for a single judge.

    Raises:
        BadRecord: ``panel`` has another form, or a judge has neither points nor a reason.
    """
    members = judge_records(record) if read_panel(record) else ()
    return tuple(_member(judge_record, full_marks) for judge_record in members)


def _member(judge_record: Record, full_marks: float) -> MemberResult:
    expected_score = read_expected(judge_record, full_marks)
    return MemberResult(
        judge=Signature(optional_text(judge_record, "judge")),
        result=judge_result(_replies(judge_record) or ()),
        verdicts=Verdicts(
            official=verdict(judge_record, "official", full_marks),
            robust=verdict(judge_record, "robust", full_marks),
            expected=expected_score.verdict,
            entropy_bits=expected_score.entropy_bits,
        ),
    )


def _replies(record: Record) -> tuple[JudgeReply, ...] | None:
    value = field(record, "replies", list, "a list")
    if value is None:
        return None
    replies = [reply for logged_reply in value if (reply := read_reply(logged_reply)) is not None]
    return tuple(replies) if len(replies) == len(value) else None


def rejudged(
    record: Record, grade: Callable[[JudgeResult], Verdicts] | None, full_marks: float
) -> Judged | None:
    """The verdicts of the current readers on the saved replies of a record, and each judge's.

    Those of a panel's judges are combined by the logged rule; of a judge without a reply and a
    score, the logged ones count.

    Args:
        record: A sample's record.
        grade: The verdicts on the replies of one judge; None if the record lacks what it needs.
        full_marks: Points outside 0 to `full_marks` become NaN.

    Returns:
        None if the record lacks the replies that its scores were read from.

    Raises:
        BadRecord: A field has another form.
    """
    logged_panel, current = read_panel(record), []
    for judge_record in judge_records(record):
        member, saved_replies = _member(judge_record, full_marks), _replies(judge_record)
        logged = (member.verdicts.official, member.verdicts.robust)
        if saved_replies and grade:
            member = replace(member, verdicts=grade(member.result))
        elif saved_replies != () or any(isinstance(entry, Scored) for entry in logged):
            return None
        current.append(member)
    verdicts = current[0].verdicts
    if logged_panel is not None:
        if len(current) < logged_panel.min_valid:  # not of ours
            return None
        verdicts = combine(current, logged_panel)
    return Judged(verdicts=verdicts, members=tuple(current), panel=logged_panel)


def with_verdicts(
    record: Record, reread: Callable[[Record], Mapping[str, Verdict] | None]
) -> dict[str, object]:
    """A record with other verdicts, and each judge of its panel too.

    Args:
        record: A sample's record.
        reread: The verdicts of a record; of a panel's judge, of a record that has only its replies.
            None leaves the logged ones.

    Raises:
        BadRecord: ``panel`` has another form, or as `reread`.
    """
    renewed = {**record, **_rows(reread(record))}
    if logged_panel := mapping(record, "panel"):
        alone = {**record, "panel": None}
        members = [
            {**member, **_rows(reread({**alone, **member}))} for member in judge_records(record)
        ]
        renewed["panel"] = {**logged_panel, "members": members}
    return renewed


def _rows(verdicts: Mapping[str, Verdict] | None) -> dict[str, object]:
    return {
        kind: as_row(verdict) for kind, verdict in (verdicts or {}).items() if kind in READER_KINDS
    }
