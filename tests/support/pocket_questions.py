"""A question of each kind that the pocket world asks, as its offline teacher reads them."""

from __future__ import annotations

CHOICES = ("red", "blue", "green", "grey")
QUESTIONS = {
    "weather": "How is the weather in this video?",
    "main_place": "Where does most of the video take place?",
    "color": "What color is the ring at the red?",
    "shape": "Which shape is at the red?",
    "move": "How does the ring at the red move?",
    "after": "Which place comes right after the red?",
    "before": "Where is the video right before the red?",
    "count": "How many scenes take place at the red?",
    "sign": "What does the sign at the red say?",
    "spoken": 'Where is the video when the narrator says "The old king laughs."?',
    "narration": "According to the narrator, Anna hid what?",
    "story": "What is the whole story about?",
    "other": "Why does nobody go to the red place?",
}
