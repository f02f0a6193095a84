"""The offline teacher of the pocket world: it parses questions and writes programs for them."""

from videopro.pocket.teacher.teacher import PocketTeacher as PocketTeacher
