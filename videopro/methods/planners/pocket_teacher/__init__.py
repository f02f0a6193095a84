"""The offline teacher of the pocket world: it parses questions and writes programs for them."""

from videopro.methods.planners.pocket_teacher.teacher import PocketTeacher as PocketTeacher
