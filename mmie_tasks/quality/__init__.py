"""How good a judge is: exams, and scores corrected by people."""
