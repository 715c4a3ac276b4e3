"""What a log's turn keeps of what its model said, and a session of what its model read."""

from agenteval.trial.call import ToolCall
from agenteval.trial.session import HELD, MOST_TEXT, Building, LoggedCall, LoggedTurn, Session


def test_what_a_model_says_in_pieces_is_one_text_until_it_is_a_book() -> None:
    turn = LoggedTurn()
    for piece in ("Looking.", "", "Done.", "x" * MOST_TEXT, "and more"):
        turn.says(piece)
    assert turn.text == "Looking.\nDone.\n" + "x" * MOST_TEXT


def test_of_what_a_model_read_the_beginning_is_kept_and_fills_its_part() -> None:
    building = Building(Session("s"))
    turn, results = building.turn(), HELD // MOST_TEXT + 1
    calls = [LoggedCall(ToolCall(str(n), "x", "{}", {}), said="y" * 70_000) for n in range(results)]
    for call in calls:
        building.called(turn, call)
        assert len(call.said) == MOST_TEXT
    assert building.whole() is None  # its calls are waited for
    for call in calls:
        building.set_reply(call, "no")
        building.take_call(call.call.id)
    assert {call.said for call in calls} == {"no"}
    assert building.whole() is None  # a text that is replaced fills nothing
    for call in calls:
        building.set_reply(call, "z" * 70_000)
    assert building.whole() == Session("s", turns=[turn])
    assert building.session == Session("s", part=1)


def test_a_name_is_the_first_one_of_its_turn_once() -> None:
    building = Building(Session("s"))
    turn, other = building.turn(), building.turn()
    one, again, else_ = (LoggedCall(ToolCall("", name, "{}", {})) for name in "aab")
    asked = [(turn, one), (turn, again), (turn, else_), (other, again)]
    assert [building.first(*each) for each in asked] == [True, False, True, True]
    building.cut()
    assert building.first(turn, again)
