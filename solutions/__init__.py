"""The course's answers, one module a chapter: plain code that can be imported and read on its own."""
