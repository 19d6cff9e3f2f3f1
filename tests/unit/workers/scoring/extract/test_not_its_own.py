"""Letters and answers in a text that are not its own answer: of others, of examples, of steps and explanations."""

from __future__ import annotations

import pytest

from tests.unit.workers.scoring.extract.extracting import CITIES, label
from workers.scoring.extract import Extraction, extract

ASKED = "What is the capital of France?"
LISTED = "A. Berlin\nB. Madrid\nC. Paris\nD. Rome"


@pytest.mark.parametrize(
    "text", ["C\n\nQuestion: Next?\nAnswer: A", "C<|im_end|>B", "C\nUser: And now?\nThe answer is A."]
)
def test_what_the_model_makes_up_after_its_answer_is_not_read(text: str) -> None:
    assert label(text) == "C"


@pytest.mark.parametrize(
    "others",
    [
        "Most people would answer B.",
        "Most people answer B.",
        "People often answer: B.",
        "Some might answer (B).",
        "My friend would answer B.",
        "Naively, one would answer B.",
        "The old answer was B.",
        "A valid alternative would be B.",
    ],
)
def test_what_others_would_answer_is_not_the_own_answer(others: str) -> None:
    assert label(others) is None
    assert label(f"{others}\n\nC") == "C"
    assert label(f"I would answer C. {others}") == "C"


@pytest.mark.parametrize(
    "text",
    [
        "The most likely answer is C.",
        "One answer is C.",
        "I, unlike most people, would answer: C.",
        "As most people know, the answer is C.",
        "Most of the evidence points to the answer C.",
    ],
)
def test_the_own_answer_may_speak_of_most_and_people(text: str) -> None:
    assert label(text) == "C"


def test_the_answer_to_a_similar_question_is_not_the_own_one() -> None:
    assert label("The answer to a similar question is B.") is None
    assert label("The answer to the question is C. The answer to a related question is B.") == "C"


@pytest.mark.parametrize(
    "example",
    [
        "Similar question: What is the capital of Spain? Answer: B",
        "Here is a similar question: what is the capital of Spain? It lies in Iberia, so the answer is B.",
        "Related problem. What is the capital of Spain? The correct answer is Madrid.",
        "Example: What is the capital of Spain? Answer: B",
        "Example 1: What is the capital of Spain?\nAnswer: (B)",
        "Similar question:\nWhat is the capital of Spain?\nA) Berlin\nB) Madrid\nC) Paris\nD) Rome\nAnswer: B",
    ],
)
def test_the_answer_to_an_example_is_not_the_own_answer(example: str) -> None:
    asked = "What is the capital of France?"
    assert extract(example, CITIES, asked) == Extraction(None, "none")
    assert extract(f"{example}\n\nParis", CITIES, asked).label == "C"
    assert extract(f"{example}\nNow our question: the answer is C.", CITIES, asked).label == "C"
    assert extract(f"The answer is C.\n\n{example}", CITIES, asked).label == "C"


@pytest.mark.parametrize(
    "text",
    [
        "This is similar to another one. Which city lies on the Seine? The answer is C.",
        "A similar question is often asked. What is the capital of France? The answer is C.",
        "For example, where does the Seine flow? So the answer is C.",
        "Is it Rome, for example? No. The answer is C.",
        "Similar question: what is the capital of Spain? Madrid. Likewise, the answer is C.",
    ],
)
def test_a_question_that_is_no_example_leaves_the_answer_behind_it(text: str) -> None:
    assert label(text) == "C"


@pytest.mark.parametrize(
    "another",
    [
        "Using the old definition, the answer is A.",
        "Per the older guidelines, the answer is A.",
        "According to the outdated textbook, the answer is A.",
        "With a different map, it is A.",
    ],
)
def test_an_answer_by_another_definition_has_not_the_last_word(another: str) -> None:
    assert label(another) == "A", "it is all that is said"
    assert label(f"{another} Using the current one, the answer is C.") == "C"
    assert extract(f"Using the current map, the answer is C. {another}", CITIES) == Extraction(
        None, "ambiguous", ("A", "C")
    )
    assert label("The answer is A. Wait, no. In other words, the answer is C.") == "C"


@pytest.mark.parametrize(
    "explanation",
    [
        "So A (the acid) donates a proton to B (the base).",
        "So A, being heavier, sinks.",
        "Therefore A - the acid - donates a proton.",
        "Thus B, not A, is the limiting reagent.",
        "So B, as the slower car, never catches up.",
        "So A is right of B.",
        "In the picture, A is right above B.",
        "We choose A as the pivot.",
        "1. Choose A as the starting point.",
    ],
)
def test_a_letter_that_an_explanation_speaks_of_is_no_answer(explanation: str) -> None:
    assert label(explanation) is None
    assert label(f"The answer is C. {explanation}") == "C"
    assert label(f"**C**\n\n{explanation}") == "C"


@pytest.mark.parametrize(
    "steps",
    [
        "1. We pick A. 2. We then compare it with the pivot.",
        "1. Pick A.\n2. Compare it with B.",
        "1) Let's select A.\n2) Move on.",
        "Step 1: We choose A. Step 2: We compare it with B.",
    ],
)
def test_what_a_numbered_step_picks_is_no_answer(steps: str) -> None:
    assert label(steps) is None
    assert label(f"{steps}\n\nThe answer is C.") == "C"
    assert label(f"The answer is C.\n\n{steps}") == "C"


@pytest.mark.parametrize(
    "text",
    ["1. I choose C.\n2. It is in France.", "1. The answer is C.\n2. It is in France.", "1. Look.\n2. We pick C."],
)
def test_a_numbered_answer_or_the_last_step_is_read(text: str) -> None:
    assert label(text) == "C"


@pytest.mark.parametrize(
    "explanation",
    [
        "Of the two alleles, A is the dominant one.",
        "In the diagram, A is the faster one.",
        "So A is right.",
        "Thus A.",
        "It's A.",
        "This makes A the heavier body.",
        "We choose A as the left neighbour.",
        "Popular opinion holds that the answer is A.",
        "Back then, the answer was A.",
        "I would choose A, if friction mattered.",
    ],
)
@pytest.mark.parametrize("announced", ["The answer is C.", "**Answer: C**\n\nExplanation:", "C\n\n", r"\boxed{C}"])
def test_what_may_only_explain_the_answer_does_not_displace_it(announced: str, explanation: str) -> None:
    found = extract(f"{announced} {explanation}", CITIES)
    assert found.label in {None, "C"}
    assert label(f"The answer is A. {explanation}") == "A"


@pytest.mark.parametrize(
    "text",
    [
        "So C (Paris) is correct.",
        "So C (not A) is correct.",
        "Thus C, not A, is the right answer.",
        "So C, the city on the Seine, is the answer.",
        "So C (the third one) it is.",
        "Therefore, C, since the Seine flows through it.",
        "So C is right after all.",
        "We choose C as the answer.",
        "I'd choose C as the most likely capital.",
        "I think the answer is A. No: it is in Germany. So C.",
        "The answer is A. But Berlin is in Germany. The answer is C.",
        "The answer is A. Berlin? No. I conclude that C is the correct answer.",
        "C is the faster one. The answer is C.",
        "A is the faster one. The answer is C.",
    ],
)
def test_a_conclusion_about_the_choice_itself_is_still_an_answer(text: str) -> None:
    assert label(text) == "C"


@pytest.mark.parametrize(
    "further",
    [
        "Q: Name the capital of Spain.\nA: B",
        "Q: 12 + 5 =\nA: The answer is B.",
        "Q2: The capital of Spain is\nAnswer: B",
        "Q: The capital of Spain is\n\nA. Rome\nB. Madrid\nAnswer: B",
        "Q3: Finish this sentence.\nWho was the king of Spain?\nThe answer is B.",
    ],
)
def test_a_question_behind_q_is_a_further_one_also_without_a_question_mark_in_its_line(further: str) -> None:
    assert label(f"C\n\n{further}") == "C"
    assert label(f"The answer is C.\n\n{further}") == "C"


@pytest.mark.parametrize(
    "values",
    [
        "Q1: 25\nQ3: 75",
        "**Q1:** 25\n**Q3:** 75\n\nIQR = 75 - 25 = 50",
        "Q1: lower quartile = 25\nQ3: upper quartile = 75",
        "* Q1: 25 (the median of the lower half)\n* Q3: 75 (the median of the upper half)",
        "Q: 500 J\nm: 2 kg",
        "Q1: sales grew\nQ2: sales fell",
    ],
)
def test_a_quartile_or_an_amount_of_heat_begins_no_further_question(values: str) -> None:
    numbers = ("25", "50", "75", "100")
    assert label(f"{values}\n\nThe answer is B.", numbers) == "B"
    assert label(f"Given:\n{values}\nThe answer is B.", numbers) == "B"


@pytest.mark.parametrize(
    "behind",
    [
        "Question: What is the capital of Spain?\n\nThe answer is B.",
        f"Question: What is the capital of Spain?\n{LISTED}\nAnswer: B",
        f"Question: {ASKED}\nA. Lyon\nB. Paris\nAnswer: B",
        "### Instruction:\nName the capital of Spain.\n\n### Response:\nB",
        "The capital of Italy is\n\nQuestion: The capital of Spain is\nAnswer: B",
        "User: And of Spain?\nThe answer is B.",
        "Human: next one\n\nAssistant: The answer is B.",
    ],
)
def test_the_answer_to_a_made_up_question_is_not_taken_where_the_own_question_has_none(behind: str) -> None:
    assert extract(f"I don't know.\n\n{behind}", CITIES, ASKED) == Extraction(None, "none")


@pytest.mark.parametrize(
    "text",
    [
        "I'll break this down.\n\n## Question Analysis\nWe need the capital.\n\n**Answer: C**",
        f"Sure! Let me help.\n\n### Question\n{ASKED}\n\n### Answer\nC",
        f"First I restate the task.\n\nQuestion: {ASKED}\n\nThe answer is C.",
        f"Sure.\n\n**Question:** {ASKED}\n{LISTED}\n\n**Answer:** C",
        f"Sure.\n\nQuestion: {ASKED}\n\nThe answer is C.\n\nQuestion: And of Spain?\nThe answer is B.",
        "Here is my reasoning:\n\nUser: wants the capital.\nThe answer is C.",
    ],
)
def test_a_text_that_restates_its_question_before_it_answers_is_answered(text: str) -> None:
    assert extract(text, CITIES, ASKED).label == "C"


@pytest.mark.parametrize(
    "all_answers",
    [
        "Now, let's combine all the answers:\n\nThe answer is (B).",
        "Now, let's summarize all the answers:\nA. They have wings.\nB. 38\nA. Translation\nC. Paris",
        "Now, combining all the answers, we have:\nThe answer is A.\nThe answer is D.",
        "Now, considering all the questions and answers:\nThe answer is (B).",
        "Now, let's总结以上问题的答案：\n\nThe answer is (B).",
    ],
)
def test_the_answers_to_all_questions_of_the_prompt_do_not_displace_the_own_one(all_answers: str) -> None:
    """Behind solved examples, some models go on so after every fifth of their answers."""
    assert label(f"It lies on the Seine. The answer is (C).\n\n{all_answers}") == "C"


def test_a_summary_is_read_where_nothing_was_answered_before_it() -> None:
    assert label("It lies on the Seine.\n\nNow, let's combine all the answers:\nThe answer is (C).") == "C"
    assert label("It may be A.\n\nNow, considering all the answers above, the answer is C.") == "C"


@pytest.mark.parametrize(
    "text",
    [
        "The fourth answer choice is Rome. This could be",
        "The sixth option is B, which is in Spain.",
        "We can strike choices (A) and (D).\n\nThat leaves us with choices (B)",
        "Madrid is out. This leaves options B",
        "Let us go through each of the remaining choices:\n\n(A) Berlin: a city on the Spree\n(C) Paris: a city",
    ],
)
def test_a_text_that_was_cut_off_while_it_went_through_choices_names_none(text: str) -> None:
    assert label(text) is None
    assert label(f"{text}\n\nSo the answer is C.") == "C"


@pytest.mark.parametrize(
    "text", ["That leaves us with choice (C)", "This leaves option C", "That leaves choices (C).", "The right one is C"]
)
def test_the_only_choice_that_is_left_at_the_end_is_read(text: str) -> None:
    assert label(text) == "C"


DISCUSSED = "{0}A. Berlin{1} lies on the Spree.\n\n{0}B. Madrid{1} lies in Spain.\n\n"


@pytest.mark.parametrize(("before", "behind"), [("", ""), ("* **", "**"), ("**", "**"), ("- ", "")])
def test_the_choice_that_comes_next_where_a_text_was_cut_off_is_no_answer(before: str, behind: str) -> None:
    discussed = DISCUSSED.format(before, behind)
    assert label(f"{discussed}{before}C. Paris{behind}") is None
    assert label(f"{discussed}Neither is right: they are wrong.\n\n{before}C. Paris{behind}") == "C"
    assert label(f"{discussed}{before}C. Paris{behind} lies on the Seine.\n\n{before}C. Paris{behind}") == "C"
    assert label(f"{discussed}The answer is:\n\n{before}C. Paris{behind}") == "C"


def test_the_number_of_an_item_where_a_list_was_cut_off_is_no_answer() -> None:
    numbers = ("2500", "2", "50", "25")
    assert label("We begin again:\n1. The length is twice the width.\n2", numbers) is None
    assert label("We begin again:\n1) The length is twice the width.\n2.", numbers) is None
    assert label("We begin again:\n1. The length is twice the width.\n\n50", numbers) == "C"


@pytest.mark.parametrize(
    "further",
    [
        " <end_of_text> The answer is A",
        "<eod>A",
        "<|end_of_turn|>The answer is A.",
        "\n[INST] And of Germany? [/INST] The answer is A.",
        "<|user|>\nAnd of Germany?\n<|assistant|>\nThe answer is A.",
        "<|im_start|>user\nAnd of Germany?",
        "<|im_start|>user\nAnd of Germany?\n<|im_start|>assistant\nThe answer is A.",
        "<|start_header_id|>user<|end_header_id|>\n\nA?<|start_header_id|>assistant<|end_header_id|>\n\nAnswer: A",
        "<start_of_turn>user\nAnd of Germany?\n<start_of_turn>model\nThe answer is A.",
        "<｜User｜>And of Germany?<｜Assistant｜>The answer is A.",
    ],
)
@pytest.mark.parametrize("own", ["C", "The answer is C."])
def test_a_further_turn_of_a_chat_is_not_read(own: str, further: str) -> None:
    assert label(own + further) == "C"


@pytest.mark.parametrize(
    "further",
    [
        "\nuser\nAnd of Germany?\nassistant\nThe answer is A.",
        "\nuser\nAnd of Germany?\nA. Berlin\nB. Bonn\nmodel\nA",
        "user\n\nAnd of Germany?assistant\n\nThe answer is A.",
        "assistant\n\nThe answer is A.",
    ],
)
def test_a_further_turn_is_not_read_where_the_server_dropped_its_control_tokens(further: str) -> None:
    assert label(f"The answer is C.{further}") == "C"


@pytest.mark.parametrize(
    "text",
    [
        "assistant\n\nC",
        "[/INST] C",
        "<s>[INST] What is the capital of France? [/INST] The answer is C.",
        "The user\nof this map sees Paris.\nThe answer is C.",
        "There is a user\n\nThe answer is C.",
        "user\n\nThe answer is C.",
    ],
)
def test_words_and_marks_of_a_chat_before_the_answer_hide_nothing(text: str) -> None:
    assert label(text) == "C"
    assert label("The answer is C.\nuser", ("root", "admin", "user")) == "C"


@pytest.mark.parametrize(
    "further",
    [
        "Frage: Was ist die Hauptstadt von Deutschland?\nAntwort: A",
        "Pregunta 2: ¿Cuál es la capital de Alemania?\nRespuesta: A",
        "Pergunta: Qual é a capital da Alemanha?\nResposta: A",
        "Вопрос: Столица Германии?\nОтвет: A",
        "问题：德国的首都是？\n答案：A",
        "下一题：德国的首都是？\n答案：A",
        "質問：ドイツの首都は？\n答え：A",
        "질문: 독일의 수도는?\n정답: A",
        "### Input:\nThe capital of Germany\n\n### Response:\nThe answer is A.",
    ],
)
def test_a_further_question_in_another_language_is_not_read(further: str) -> None:
    assert label(f"C\n\n{further}") == "C"
    assert label(f"The answer is C.\n\n{further}") == "C"


def test_what_is_called_a_question_elsewhere_and_asks_nothing_or_the_own_one_is_read_on_from() -> None:
    assert label("我认为是A。\n问题：A在德国。所以答案是C。") == "C"
    asked = "法国的首都是？"
    assert extract(f"好的。\n\n题目：{asked}\n\n答案：C", CITIES, asked).label == "C"
