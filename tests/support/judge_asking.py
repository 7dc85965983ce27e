"""Judges as a run creates them, and `openai` judges at a loopback server, with short waits."""

from mmie_tasks.core.choice import Choice
from mmie_tasks.http.sender import Pace
from mmie_tasks.judges import registry
from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judges.openai.judge import OpenAIJudge
from mmie_tasks.judges.openai.settings import OpenAIOptions

KEY = "sk-thisisnotarealkey"
FAST = Pace(base_s=0.02, cap_s=0.1, short_cap_s=0.1, no_growth_s=0.2, check_s=(0.01, 0.01))


def create(name, options, environment):
    return registry.create(Choice(name=name, options=options), environment)


def judge_of(environment=None, **options):
    return OpenAIJudge(OpenAIOptions(**options), {"MODEL_VERSION": "m", **(environment or {})})


def judge_at(url, *, key=KEY, pace=FAST, **options):
    # Longer than a busy machine takes for anything here: only what fails on purpose ends so.
    options = {"model": "judge-model", "timeout": 30.0, "patience": 30.0, **options}
    environment = {"OPENAI_API_KEY": key} if key else {}
    return OpenAIJudge(OpenAIOptions(base_url=url, **options), environment, pace=pace)


def requests(count, max_tokens=50):
    return [JudgeRequest(parts=(f"question {i}",), max_tokens=max_tokens) for i in range(count)]


def ask(judge, sent=1):
    """One outcome per request, in their order; more or fewer are an error."""
    sequence = requests(sent) if isinstance(sent, int) else sent
    outcomes = list(judge.ask(sequence))
    assert sorted(index for index, _ in outcomes) == list(range(len(sequence)))
    return [outcome for _, outcome in sorted(outcomes, key=lambda pair: pair[0])]


def question_of(body):
    return body["messages"][0]["content"][0]["text"]
