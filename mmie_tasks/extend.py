"""What packages that add a benchmark, a judge or a model may rely on; see ``docs/extend.md`` and
``judges/README.md``.

Nothing inside this package imports this module.

>>> from mmie_tasks.extend import Scored
>>> Scored(4).points
4
"""

from mmie_tasks.answers.drawn import write_answer as write_answer
from mmie_tasks.benchmarks.benchmark import Benchmark as Benchmark
from mmie_tasks.benchmarks.benchmark import Doc as Doc
from mmie_tasks.benchmarks.benchmark import PublishedRow as PublishedRow
from mmie_tasks.benchmarks.settings import TaskSettings as TaskSettings
from mmie_tasks.core.errors import DataBroken as DataBroken
from mmie_tasks.core.errors import DataMissing as DataMissing
from mmie_tasks.core.errors import MmieTasksError as MmieTasksError
from mmie_tasks.core.verdict import Scored as Scored
from mmie_tasks.core.verdict import Unscored as Unscored
from mmie_tasks.core.verdict import Verdict as Verdict
from mmie_tasks.core.verdict import Verdicts as Verdicts
from mmie_tasks.hub.asset import Asset as Asset
from mmie_tasks.hub.run_images import check_images as check_images
from mmie_tasks.judges.base import Judge as Judge
from mmie_tasks.judges.base import JudgeMisconfigured as JudgeMisconfigured
from mmie_tasks.judges.base import JudgeOptions as JudgeOptions
from mmie_tasks.judges.base import JudgeRefused as JudgeRefused
from mmie_tasks.judges.base import JudgeRequest as JudgeRequest
from mmie_tasks.judges.base import JudgeUnavailable as JudgeUnavailable
from mmie_tasks.judges.base import Outcome as Outcome
from mmie_tasks.judges.base import ReplySchema as ReplySchema
from mmie_tasks.judges.base import RequestUnfit as RequestUnfit
from mmie_tasks.judges.session import BenchmarkJudge as BenchmarkJudge
from mmie_tasks.record.facts import Facts as Facts
from mmie_tasks.record.metrics import Metric as Metric
from mmie_tasks.record.metrics import Scale as Scale
from mmie_tasks.record.record import Record as Record
from mmie_tasks.record.reply import JudgeReply as JudgeReply
from mmie_tasks.record.reply import JudgeResult as JudgeResult
from mmie_tasks.record.reply import Usage as Usage
from mmie_tasks.record.rows import aggregation as aggregation
from mmie_tasks.record.rows import coverage as coverage
from mmie_tasks.record.signature import Signature as Signature
