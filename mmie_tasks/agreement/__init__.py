"""``mmie-tasks agreement``: would another judge, or people, have given the same points?"""
