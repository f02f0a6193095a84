"""The words of the pocket world: what can be seen, read and heard there, and how one asks about it.

Settled before the long training: the tokenizer and the shipped weights rest on it, and `world.fingerprint()`
hashes it. Every word that a question may turn on is one token of the pocket tokenizer.
"""

from collections.abc import Mapping

COLORS: Mapping[str, tuple[int, int, int]] = {
    "red": (222, 32, 32),
    "green": (30, 170, 50),
    "blue": (36, 70, 230),
    "yellow": (246, 222, 30),
    "purple": (140, 40, 180),
    "orange": (250, 130, 10),
    "white": (248, 248, 248),
    "black": (16, 16, 16),
}
SHAPES = ("ball", "box", "triangle", "star", "ring", "cross", "diamond", "heart")
MOVES = ("slides", "jumps", "circles", "pulses", "rests")
WEATHERS = ("sunny", "rainy", "snowy", "cloudy", "foggy")
PLACES = (
    "beach", "forest", "desert", "harbor", "market", "kitchen", "garden", "station", "castle", "bridge",
    "cave", "farm", "school", "library", "temple", "stadium", "mountain", "lake", "factory", "street",
)  # fmt: skip
SIGNS = (
    "OPEN", "EXIT", "TAXI", "CAFE", "BANK", "HOTEL", "PIZZA", "RADIO", "STOP", "TOYS", "BOOKS", "MUSIC",
)  # fmt: skip
COUNTS = ("2", "3", "4", "5")

NAMES = (
    "Anna", "Ben", "Carla", "David", "Emma", "Felix", "Grace", "Henry", "Iris", "Jack", "Kate", "Leo",
)  # fmt: skip
DEEDS = ("lost", "found", "bought", "sold", "hid", "painted")
THINGS = (
    "lamp", "key", "book", "hat", "coat", "clock", "map", "cup", "drum", "kite", "rope", "coin", "shoe",
    "knife", "bell", "letter",
)  # fmt: skip
TOPICS = (
    "wedding", "race", "treasure", "concert", "trial", "feast", "journey", "election", "robbery", "wager",
)  # fmt: skip

LINE_KINDS = ("old", "little", "tired", "quiet", "loud", "clever", "lazy", "proud")
LINE_WHO = ("baker", "king", "dog", "nurse", "ghost", "sailor", "teacher", "horse", "doctor", "cat")
LINE_DOES = ("laughs", "sleeps", "sings", "waits", "leaves", "falls", "smiles", "shouts")

FACT_LINES = ("{name} {deed} a {thing}.", "They say that {name} {deed} a {thing}.")
TOPIC_LINES = (
    "Everybody talks about the {topic}.",
    "Once more it is all about the {topic}.",
    "Nothing matters here but the {topic}.",
    "The {topic} is on every mind.",
)
ASIDE_LINES = ("Someone remembers a {topic}.", "A stranger asks about some {topic}.")
FILLER_LINES = (
    "The day goes on.",
    "Nobody is in a hurry.",
    "Time goes by.",
    "Then it is quiet again.",
    "So it goes on for a while.",
    "Nothing more is known of it.",
)

# Ways of asking, by kind of question. A world asks in the ways under "usual"; those under "heldout" are kept
# from everything that is trained, so that a run on them shows what a new wording costs.
PHRASINGS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "weather": {
        "usual": (
            "What is the weather in the video?",
            "Which weather does the whole video show?",
            "How is the weather in this video?",
        ),
        "heldout": ("The whole video shows what weather?", "In this video, which weather is it?"),
    },
    "main_place": {
        "usual": (
            "Where does most of the video take place?",
            "Which place is shown most of the time?",
            "At which place is most of the video?",
        ),
        "heldout": ("Most of the time, which place is shown?", "Most of the video is at what place?"),
    },
    "color": {
        "usual": (
            "What color is the {shape} at the {place}?",
            "Which color does the {shape} at the {place} have?",
            "At the {place} there is a {shape}. What is its color?",
        ),
        "heldout": (
            "There is a {shape} at the {place}. Which color is it?",
            "The {shape} at the {place} is what color?",
        ),
    },
    "shape": {
        "usual": (
            "Which shape is at the {place}?",
            "What shape do we see at the {place}?",
            "At the {place} there is something. What is its shape?",
        ),
        "heldout": (
            "What is the shape at the {place}?",
            "There is something at the {place}. Which shape is it?",
        ),
    },
    "move": {
        "usual": (
            "What does the {shape} do at the {place}?",
            "How does the {shape} at the {place} move?",
            "At the {place} there is a {shape}. What does it do?",
        ),
        "heldout": (
            "The {shape} at the {place} does what?",
            "There is a {shape} at the {place}. How does it move?",
        ),
    },
    "after": {
        "usual": (
            "Which place comes right after the {place}?",
            "Where does the video go right after the {place}?",
            "What place is shown right after the {place}?",
        ),
        "heldout": ("Right after the {place}, which place is shown?", "After the {place} comes what place?"),
    },
    "before": {
        "usual": (
            "Which place comes right before the {place}?",
            "Where is the video right before the {place}?",
            "What place is shown right before the {place}?",
        ),
        "heldout": (
            "Right before the {place}, which place is shown?",
            "Before the {place} comes what place?",
        ),
    },
    "count": {
        "usual": (
            "How many scenes take place at the {place}?",
            "How many times is the {place} shown?",
            "In how many scenes do we see the {place}?",
        ),
        "heldout": ("The {place} is shown how many times?", "At the {place}, how many scenes do we see?"),
    },
    "sign": {
        "usual": (
            "What does the sign at the {place} say?",
            "Which word is on the sign at the {place}?",
            "At the {place} there is a sign. What does it say?",
        ),
        "heldout": (
            "The sign at the {place} says what?",
            "There is a sign at the {place}. Which word is on it?",
        ),
    },
    "spoken": {
        "usual": (
            'Which place is on screen when the narrator says "{line}"?',
            'Where is the video when the narrator says "{line}"?',
            'What place do we see when the narrator says "{line}"?',
        ),
        "heldout": (
            'The narrator says "{line}" Which place do we see then?',
            'When the narrator says "{line}", what place is on screen?',
        ),
    },
    "narration": {
        "usual": (
            "What does the narrator say that {name} {deed}?",
            "According to the narrator, {name} {deed} what?",
            "Which thing was it that {name} {deed}?",
        ),
        "heldout": (
            "{name} {deed} which thing, according to the narrator?",
            "What was it that {name} {deed}?",
        ),
    },
    "story": {
        "usual": (
            "What is the whole story about?",
            "What does the narrator talk about most of the time?",
            "Which topic matters most in the story?",
        ),
        "heldout": ("Most of the story is about what?", "Which topic is the whole story about?"),
    },
}

# The family of a question, by its kind.
FAMILIES: Mapping[str, str] = {
    "weather": "gist",
    "main_place": "gist",
    "color": "attribute",
    "shape": "attribute",
    "move": "action",
    "after": "order",
    "before": "order",
    "count": "count",
    "sign": "sign",
    "spoken": "spoken",
    "narration": "narration",
    "story": "story",
}
