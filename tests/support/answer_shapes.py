"""What a model may return, and what becomes of it.

Each shape is a test case of the parser.
"""

from __future__ import annotations

from dataclasses import dataclass

from mmie_tasks.answers.parsed_answer import ParsedAnswer
from mmie_tasks.answers.parser import parse_answer
from mmie_tasks.core.wording import counted as number

A, B = "/o/a.png", "/o/b.png"
DATA = "data:image/png;base64,AAAA"
LONG_DATA = f"data:image/png;base64,{'A' * 80}"
FOLDER = "out/wan"  # of the cases, the only path that names a folder
OFFICIAL_KEYS = "with words under other keys, which the official script ignores, too"
OTHER_KEYS = "an image and no `text`: the words under other keys, in their order"
NOT_WORDS = "no words: a prompt or a question, references, URLs, encoded data; ids are not counted"


@dataclass(frozen=True, slots=True)
class Shape:
    """An answer and what becomes of it.

    Attributes:
        answer: As the model returned it; a list is the texts of several rounds.
        name: The shape's name in logs.
        pieces: Texts, and images after an ``@``; a failure's reason if there is no answer.
        counted: As `counted` writes it.
        description: What the case is about; may be empty.
    """

    answer: str | list[str | None]
    name: str
    pieces: list[str] | str
    counted: str = ""
    description: str = ""


SHAPES = [
    # MMIE's own form
    Shape(
        '[{"text": "A", "image": "/o/a.png"}, {"text": "B", "image": null}]',
        "json:parts",
        ["A", f"@{A}", "B"],
        description="parts as in MMIE's own files; a null or empty image is none",
    ),
    Shape(
        '[{"text": "A", "image": "/o/a.png", "caption": "fox", "step": 1}]',
        "json:parts",
        ["A", f"@{A}"],
        "`caption` 1",
        OFFICIAL_KEYS,
    ),
    Shape('{"text":"A","image":"/o/a.png","n":"p"}', "json:part", ["A", f"@{A}"], "`n` 1"),
    Shape(
        '{"text": null, "image": "/o/a.png", "caption": "fox"}',
        "json:part",
        [f"@{A}"],
        "`caption` 1",
    ),
    Shape(
        '{"type": "image", "image": "/o/a.png", "caption": "A fox."}',
        "json:part",
        [f"@{A}", "A fox."],
        description=OTHER_KEYS,
    ),
    Shape('{"caption": "A fox.", "image": "/o/a.png"}', "json:part", ["A fox.", f"@{A}"]),
    Shape('{"image_url": "/o/a.png", "alt": "A fox."}', "json:part", [f"@{A}", "A fox."]),
    Shape('{"image": {"path": "/o/a.png", "caption": "A fox."}}', "json:part", [f"@{A}", "A fox."]),
    Shape(
        '{"image": "/o/a.png", "notes": ["One.", {"last": "And two."}]}',
        "json:part",
        [f"@{A}", "One.", "And two."],
    ),
    Shape(
        '{"image": "/o/a.png", "revised_prompt": "a fox", "thumb": "/o/b.png", '
        '"page": "https://example.org/a", "question_id": "SA-1"}',
        "json:part",
        [f"@{A}"],
        "`revised_prompt` 1, `thumb` 1, `page` 1",
        NOT_WORDS,
    ),
    Shape(
        '[{"type": "image_generation_call", "result": "AAAA", "quality": "high", "note": "As '
        'you asked."}]',
        "json:parts",
        [f"@{DATA}", "As you asked."],
        "`quality` 1",
        "nor one word in lower case beside a `type`, `role` or `object`: a server's setting",
    ),
    Shape(
        '{"title": "Two foxes", "content": [{"type": "image", "path": "/o/a.png"}]}',
        "json:content",
        ["Two foxes", f"@{A}"],
    ),
    Shape('[{"type": "image", "path": "/o/a.png", "alt": "Fox"}]', "json:parts", [f"@{A}", "Fox"]),
    Shape(
        '[{"text": 5, "image": "/o/a.png"}]',
        "json:parts",
        ["5", f"@{A}"],
        description="a number is its text",
    ),
    Shape(
        '[{"text": "A", "image": {"colour": "red"}}]',
        "text",
        ['[{"text": "A", "image": {"colour": "red"}}]'],
        description="a part with a text or image that is neither: the whole stays text",
    ),
    Shape('{"content": [{"text": "A"}, {"text": ["B"]}]}', "json:content", ["A"], "`object` 1"),
    Shape(
        '[{"text": "A", "image": "/o/a.png"}, "B"]',
        "text",
        ['[{"text": "A", "image": "/o/a.png"}, "B"]'],
    ),
    # parts
    Shape(
        '{"content": [{"type": "text", "text": "A"}, {"type": "image", "path": "/o/a.png"}]}',
        "json:content",
        ["A", f"@{A}"],
        description="a list of parts under `content`: **what to return**",
    ),
    Shape(
        '{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"A"}]}',
        "json:messages",
        ["A"],
        description="messages; those of other roles than the assistant's are left out",
    ),
    Shape(
        f'[{{"type":"text","text":"A"}},{{"type":"image_url","image_url":{{"url":"{DATA}"}}}}]',
        "json:parts",
        ["A", f"@{DATA}"],
        description="parts as OpenAI and Anthropic write them: `image_url`, `b64_json`, `source`",
    ),
    Shape(
        '{"content": [{"type": "text", "text": "A"}, {"type": "audio", "data": "AAAA"}]}',
        "json:content",
        ["A"],
        "`audio` 1",
        "with parts of other types",
    ),
    Shape(
        '[{"type":"output_text","text":"A"},{"type":"output_image","b64_json":"AAAA"}]',
        "json:parts",
        ["A", f"@{DATA}"],
    ),
    Shape(
        '{"output":[{"content":[{"text":"A"}]},{"type":"image_generation_call","result":"AAAA"}]}',
        "json:output",
        ["A", f"@{DATA}"],
    ),
    Shape(
        '[{"type":"input_image","image_url":"/o/a.png"},{"type":"refusal","refusal":"No."}]',
        "json:parts",
        [f"@{A}", "No."],
    ),
    Shape(
        '[{"type":"image","source":{"type":"base64","data":"AAAA"}}]', "json:parts", ["@" + DATA]
    ),
    Shape(
        '[{"text":"A <image>","images":["/o/a.png"]},{"text":"B"}]',
        "json:parts",
        ["A", f"@{A}", "B"],
    ),
    # of `--model interleaved`
    Shape(
        '{"content": [{"type": "text", "text": "A"}, {"type": "image", "path": "/o/a.png", '
        '"prompt": "a fox"}], '
        '"drawing": {"signature": "step-1,images,model=flux", "drawn": 1, "failed": {"refused": '
        "1}}}",
        "json:content",
        ["A", f"@{A}"],
        description="of `--model interleaved`: with prompts and `drawing`, which are logged by "
        "themselves",
    ),
    Shape(
        '{"answer": "42", "drawing": {"signature": "step-1,images,model=flux"}}',
        "text",
        ["42"],
        description="of `--model interleaved`, without pictures: as the writer's answer alone",
    ),
    Shape(
        '{"content": [{"type": "image", "path": "/o/a.png", "prompt": "a fox"}]}',
        "json:content",
        [f"@{A}"],
        "`prompt` 1",
        "a prompt without `drawing`",
    ),
    # a text and a list of images
    Shape(
        '{"text": "1 <image> 2 <image>", "images": ["/o/a.png", "/o/b.png"]}',
        "json:text+images",
        ["1", f"@{A}", "2", f"@{B}"],
        description="a text with its images at their placeholders, see below",
    ),
    Shape(
        '{"text": "1 <image> 2 <image>", "images": ["/o/a.png"]}',
        "json:text+images",
        ["1", f"@{A}", "2 <image>"],
        "1 placeholder",
        "a placeholder without an image",
    ),
    Shape(
        '{"text": "1 [IMG0][IMG1][IMG2] 2 [IMG0][IMG1][IMG2]", "images": ["/o/a.png", "/o/b.png"]}',
        "json:text+images",
        ["1", f"@{A}", "2", f"@{B}"],
        description="one picture as a run of numbers from 0, with or without white space between",
    ),
    Shape(
        '{"text": "1 [IMG0] 2 [IMG0]", "images": ["/o/a.png", "/o/b.png"]}',
        "json:text+images",
        ["1", f"@{A}", "2", f"@{B}"],
        description="one marker as often as there are pictures: each is the next",
    ),
    Shape(
        '{"text": "1 <img><img_00012><img_07000></img> 2", "images": ["/o/a.png"]}',
        "json:text+images",
        ["1", f"@{A}", "2"],
        description="one picture as codes between an opening and a closing token",
    ),
    Shape(
        '{"text": "1 <|image start|>1*2<|image token|><|visual token 000007|><|visual token '
        '000123|><|image end|> 2", "images": ["/o/a.png"]}',
        "json:text+images",
        ["1", f"@{A}", "2"],
        description="the same, with the picture's size",
    ),
    Shape(
        '{"text": "1 [IMG]<image><image>[/IMG] 2", "images": ["/o/a.png"]}',
        "json:text+images",
        ["1", f"@{A}", "2"],
        description="the same, with equal tokens between",
    ),
    Shape(
        '{"text": "1 {{figure}} 2 {{figure}}", "images": ["/o/a.png", "/o/b.png"]}',
        "json:text+images",
        ["1", f"@{A}", "2", f"@{B}"],
        description="a marker of another name, as often as there are pictures",
    ),
    Shape('{"content": "A [IMG1]", "images": ["/o/a.png"]}', "json:text+images", ["A", f"@{A}"]),
    Shape('{"images": ["/o/a.png"]}', "json:text+images", [f"@{A}"], description="images alone"),
    Shape('{"prompt": "fox", "images": ["/o/a.png"]}', "json:text+images", [f"@{A}"], "`prompt` 1"),
    Shape(
        '{"answer": "1 <image> 2", "images": ["/o/a.png"]}',
        "json:text+images",
        ["1", f"@{A}", "2"],
        description="with the text under any other key",
    ),
    Shape(
        '{"text": "1 <image> 2 <image>", "images": [{"path": "/o/a.png", "caption": "A fox."}, '
        '"/o/b.png"]}',
        "json:text+images",
        ["1", f"@{A}", "A fox.", "2", f"@{B}"],
    ),
    Shape('{"answer": "A", "images": []}', "text", ['{"answer": "A", "images": []}']),
    Shape(
        '{"text": "no mark", "images": ["/o/a.png"]}',
        "json:text+images",
        ["no mark", f"@{A}"],
        "1 picture without a place",
        "a text with pictures and no place for them, which follow it",
    ),
    Shape('{"text": null, "images": ["/o/a.png", null, ""]}', "json:text+images", [f"@{A}"]),
    Shape('{"text": "t", "images": "/a.png"}', "text", ['{"text": "t", "images": "/a.png"}']),
    Shape('["<image> t", ["/o/a.png"]]', "text", ['["<image> t", ["/o/a.png"]]']),
    # messages of chat servers
    Shape('{"title": "Two foxes", "content": ["A"]}', "json:content", ["A"], "`title` 1"),
    Shape('{"content": ["/o/a.png", {"b64_json": "AAAA"}]}', "json:content", [A, f"@{DATA}"]),
    Shape('{"role": "assistant", "content": "/o/a.png"}', "json:part", [A]),
    Shape(
        '{"role": "assistant", "content": "A <image> B", "images": [{"type": "image_url", '
        '"image_url": {"url": "/o/a.png"}}]}',
        "json:text+images",
        ["A", f"@{A}", "B"],
        description="a message of a chat server with its images",
    ),
    Shape(
        '{"content": [{"type": "text", "text": "A <image 2> B"}, {"type": "text", "text": "C"}], '
        '"images": ["/o/a.png", "/o/b.png"]}',
        "json:content",
        ["A", f"@{B}", "B", "C", f"@{A}"],
        "1 picture without a place",
        description="parts and a list of images: first at placeholders, the rest at the end",
    ),
    Shape(
        '{"role": "assistant", "content": "A", "reasoning_content": "why", "images": []}',
        "json:text+images",
        ["A"],
        "thinking",
    ),
    Shape('{"role":"assistant","text":"B","content":"A"}', "json:part", ["A"], "`text` 1"),
    # several strings
    Shape(
        ["A", "![](/o/a.png)"], "rounds", ["A", f"@{A}"], description="several strings are rounds"
    ),
    Shape(["A", None], "rounds", ["A"], "`round: null` 1"),
    # references
    Shape(
        "Generated image saved to: ./x/y z.png",
        "saved to",
        ["@./x/y z.png"],
        description="as `qwen_image_edit` answers",
    ),
    Shape(
        FOLDER,
        "folder",
        [f"@{FOLDER}"],
        description="only a folder: its files `<row in four digits>_s<seed>.png`, as `wan2_1_t2i` "
        "writes them",
    ),
    # prose
    Shape(
        f"see ![fig](/o/a.png), {LONG_DATA} end",
        "markdown",
        ["see", f"@{A}", ",", f"@{LONG_DATA}", "end"],
        description="markdown images and data URIs, outside code",
    ),
    Shape('![a](</o/a b.png>)![c](/o/c(1).png "t")', "markdown", ["@/o/a b.png", "@/o/c(1).png"]),
    Shape(f"![x]({DATA})", "markdown", [f"@{DATA}"]),
    Shape("A fox.", "text", ["A fox."], description="any other text, unchanged"),
    Shape(
        '{"choice": 1}',
        "text",
        ['{"choice": 1}'],
        description="JSON of any other shape is text: an object, numbers, a list of words",
    ),
    # texts, which nobody's models are known to mean as pictures
    Shape(
        'Sure! [{"text": "A", "image": "/o/a.png"}]',
        "text",
        ['Sure! [{"text": "A", "image": "/o/a.png"}]'],
        description="JSON in prose or in a code fence, JSON that breaks off, what Python prints of "
        "an object",
    ),
    *(
        Shape(text, "text", [text])
        for text in (
            '```json\n[{"text": "A", "image": "/o/a.png"}]\n```',
            '[{"text": "A", "image": "/o/a.png"}, {"text": "B", "ima',
            '{"text": "A <image>", "images": ["/o/a.png"]}\n{"text": "B", "images": []}',
            "{'text': 'A <image>', 'images': ['/o/a.png']}",
            "('text', ['/o/a.png', '/o/b.png'])",
        )
    ),
    Shape(A, "text", [A], description="a path or a URL of an image, an HTML image"),
    *(
        Shape(text, "text", [text])
        for text in (
            "./out dir/1.png",
            "file:///o/a.png",
            "https://example.org/a.png",
            "<img alt='x' src='/o/b.png'/>",
            "Image saved to: /o/a.png",
        )
    ),
    # thinking
    Shape(
        "<think>Hm.</think>A",
        "text",
        ["A"],
        "thinking",
        "thinking in `<think>`, `<seed:think>`, `<reasoning>` and the like, see below",
    ),
    Shape(
        "[THINK]Hm.[/THINK]A",
        "text",
        ["A"],
        "thinking",
        "thinking in `[THINK]`, or another such pair",
    ),
    Shape(
        "[Reasoning] Red. [Answer] A",
        "text",
        ["[Reasoning] Red. [Answer] A"],
        description="a word in square brackets that no tag closes",
    ),
    Shape(
        "<|START_THINKING|>Hm.<|END_THINKING|>A",
        "text",
        ["A"],
        "thinking",
        "thinking between special tokens",
    ),
    Shape(
        "<|channel>thought\nHm.<channel|>A",
        "text",
        ["A"],
        "thinking",
        "what some models write instead: Gemma 4, MedGemma, Pangu, Apertus, Kimi K3, Inkling, s1",
    ),
    Shape(
        "Here is my thought process: Hm. Here is my response: A",
        "text",
        ["A"],
        "thinking",
        "Granite's two sentences",
    ),
    Shape(
        'End it with "</think>".',
        "text",
        ['End it with "</think>".'],
        description="a thinking tag in quotation marks or in `code` is a mention",
    ),
    Shape("<think>Not `</think>` yet.</think>A", "text", ["A"], "thinking"),
    Shape("◁think▷Hm.◁/think▷A ![](/o/a.png)", "markdown", ["A", f"@{A}"], "thinking"),
    Shape(
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>A",
        "text",
        ["A"],
        "thinking",
        "messages of gpt-oss in other channels than `final`, of Muse Glimmer to `self`",
    ),
    Shape(
        "analysisHm.assistantfinalA",
        "text",
        ["A"],
        "thinking",
        "messages of gpt-oss without their special tokens",
    ),
    Shape(
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final"
        '<|constrain|>json<|message|>{"text": "A <image>", "images": ["/o/a.png"]}<|return|>',
        "json:text+images",
        ["A", f"@{A}"],
        "thinking",
    ),
    Shape(
        "<think>Hm.", "only thinking", [], "thinking", "nothing, or only thinking: an empty answer"
    ),
    # no answer
    Shape(
        "[ERROR] no file",
        "sentinel",
        "the tested model reported an error",
        description="the runner's failures, null, a path of a video",
    ),
    Shape(
        "litellm.RateLimitError: x",
        "sentinel",
        "the client or server of the tested model reported an error",
        description="failures of other runners, clients and servers, see below",
    ),
    Shape("[NO_REPLY]", "sentinel", "the reply of the tested model was null"),
    Shape(
        "[REPLY_NOT_AN_ANSWER] not text",
        "sentinel",
        "the server's reply is not an answer: not text",
    ),
    Shape(
        "Image generation completed but no images were produced.",
        "sentinel",
        "the server of the tested model drew no picture",
    ),
    Shape("[SAFETY_BLOCKED:x]", "sentinel", "the API of the tested model blocked the answer"),
    Shape('{"text": "", "videos": ["a.mp4"]}', "video", "a video in the place of an answer"),
]


def counted(parsed: ParsedAnswer) -> str:
    """What the log counts of an answer besides its texts and images."""
    counts = [f"`{name}` {count}" for name, count in parsed.unread.items()]
    counts += ["thinking"] if parsed.thinking_removed else []
    if parsed.unfilled_placeholders:
        counts.append(f"{parsed.unfilled_placeholders} placeholder")
    if parsed.unplaced_images:
        counts.append(f"{number(parsed.unplaced_images, 'picture')} without a place")
    return ", ".join(counts)


def parsed(shape: Shape) -> ParsedAnswer:
    results = shape.answer if isinstance(shape.answer, list) else [shape.answer]
    return parse_answer(results, is_folder=lambda path: path == FOLDER)
