"""How good a judge is: exams, stress tests, and scores corrected by people."""
