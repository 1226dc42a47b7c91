from docs.tools.trainers_table import PAGE, write


def test_the_page_shows_what_the_drivers_say() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert write(page) == page, "run docs/tools/trainers_table.py"
