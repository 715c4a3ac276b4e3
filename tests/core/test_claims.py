"""Whether last words say that the work is done."""

import pytest

from agenteval.core.outcome import claims_done


@pytest.mark.parametrize(
    "text",
    [
        "Done.",
        "All done!",
        "The task is complete.",
        "The work is done and handed over.",
        "All findings are gathered. The task is complete.",
        "I have recorded the outcome and started the evaluator.",
        "I've now successfully completed all three closing calls.",
        "The attempt has been successfully closed.",
        "All three steps completed.",
        "**Stage status:** updated to awaiting_eval.\n\n**Task complete.**",
        "Everything is in place: outcome, status and evaluator.",
        "I could not run the remaining commands, but the work itself is done.",
        "One search was denied; the stage is closed.",
        "The evaluator was spawned without any errors.",
        "Nothing else remains to be done.",
        "The loop has been advanced, no further issues.",
        "Completed: the evaluator is now started \u2014 it will judge attempt 523.",
        "<think>I cannot do this, it failed.</think>The work is done.",
        "It\u2019s done.",
    ],
)
def test_a_text_that_says_so_claims_that_the_work_is_done(text):
    assert claims_done(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The machine uses 43 litres in each wash.",
        "I cannot do this.",
        "The task is not complete.",
        "The stage isn't done.",
        "The stage isn\u2019t closed yet.",
        "I was unable to complete the stage.",
        "The evaluator could not be started because the call was denied.",
        "All steps are completed except that the evaluator was denied.",
        "I recorded the outcome, but the evaluator still needs to be started.",
        "The outcome is recorded. However, the status update failed.",
        "Once the stage is closed, the evaluator is started.",
        "If everything is done, the loop goes on.",
        "I will report when the work is done.",
        "I have done nothing.",
        "Is the task done?",
        "Shall I mark it as completed?",
        "The remaining steps are to be completed by somebody else.",
        "The work is mostly done.",
        "I stop here: what was asked for is recorded as far as it could be.",
        "Please confirm that the attempt is closed.",
        "Let me see that the work is finished.",
        "<think>The task is complete.</think>",
        "<think>The task is complete. All done",
        "\u4efb\u52a1\u5df2\u5b8c\u6210\u3002",
    ],
)
def test_results_plans_questions_and_admissions_claim_nothing(text):
    assert not claims_done(text)
