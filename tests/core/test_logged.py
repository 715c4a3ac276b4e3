"""What a log's turn keeps of what its model said."""

from agenteval.core.logged import MOST_TEXT, LoggedTurn


def test_what_a_model_says_in_pieces_is_one_text_until_it_is_a_book() -> None:
    turn = LoggedTurn()
    for piece in ("Looking.", "", "Done.", "x" * MOST_TEXT, "and more"):
        turn.says(piece)
    assert turn.text == "Looking.\nDone.\n" + "x" * MOST_TEXT
