"""Answers that a text takes back, corrects or contradicts."""

from __future__ import annotations

import pytest

from tests.unit.workers.scoring.extract.extracting import CITIES, label
from workers.scoring.extract import Extraction, extract


@pytest.mark.parametrize(
    "taken_back",
    [
        "... not.",
        ". Not.",
        " - NOT!",
        " (not).",
        " (just kidding, B).",
        ". It is in Germany. Just kidding.",
        ". Haha, only joking!",
        ". That was a joke.",
        ". I take that back.",
        ". Strike that, B.",
        ". Oh, never mind.",
        ". Please ignore my previous answer.",
        ". I have changed my mind.",
        ". Actually, no.",
        ". No, it isn't.",
        ". Nope.",
        ". Or maybe not.",
        ". My bad, B.",
        "... er, B.",
        ". That seems too far north. Let's reconsider the question.",
        ". It may not be. Let's re-examine what is asked.",
        ". Nothing is said of the country. Therefore, I cannot provide an answer.",
        ". So I am unable to give a final answer.",
        "。让我们重新审视一下问题。",
    ],
)
@pytest.mark.parametrize("said", ["The answer is A", "The answer is Berlin", "It's A"])
def test_an_answer_that_is_taken_back_in_passing_is_none(said: str, taken_back: str) -> None:
    assert label(f"{said}.") == "A"
    assert extract(said + taken_back, CITIES) == Extraction(None, "retracted", ("A",))


@pytest.mark.parametrize(
    "corrected",
    [
        ". Just kidding, it's C.",
        ". It is in Germany. Just kidding, it's C.",
        ". I'm joking, it is C.",
        ". I take it back, it's C.",
        ". Make that C.",
        ", nope, C.",
    ],
)
def test_an_answer_behind_one_that_was_taken_back_in_passing_is_read(corrected: str) -> None:
    assert label(f"The answer is A{corrected}") == "C"


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Die Antwort ist A. Ach nein, C.", "C"),
        ("Die Antwort ist A. Moment, nein: C.", "C"),
        ("Die Antwort ist A. Korrektur: C.", "C"),
        ("La réponse est A. Ah non, C.", "C"),
        ("Odpowiedź: A. Nie, C.", "C"),
        ("Ответ: A. Нет, C.", "C"),
        ("A is my answer. Update: C.", "C"),
        ("Die Antwort ist A. Quatsch, es ist C.", "C"),
        ("La réponse est A, non, C", "C"),
        ("La réponse est A. Je me trompe, c'est C.", "C"),
        ("La réponse est A. Attendez, c'est C.", "C"),
        ("La réponse est A, enfin C", None),
        ("La réponse est A, ou plutôt C", None),
        ("La réponse est A. Finalement, C.", None),
        ("La réponse est A, mais c'est faux.", None),
        ("La réponse est A. C'est faux.", None),
        ("La respuesta es A, perdón, C", None),
        ("La respuesta es A, mejor dicho, C", None),
        ("La respuesta es A. Me equivoqué, es C.", None),
        ("La respuesta es A. Espera, es C.", None),
        ("La respuesta es A. En realidad, es C.", None),
        ("La respuesta es A, pero es incorrecta.", None),
        ("La respuesta es A. Eso no es correcto.", None),
        ("A resposta é A. Desculpe, é C.", None),
        ("A resposta é A. Mas isso está errado.", None),
        ("La risposta è A. Ma è sbagliato.", None),
        ("Die Antwort ist A, Entschuldigung, C.", None),
        ("Die Antwort ist A, besser gesagt C", None),
        ("Die Antwort ist A. Halt, C.", None),
        ("Die Antwort ist A. Oder C.", None),
        ("Die Antwort ist A. Eigentlich ist es C.", None),
        ("Die Antwort ist A. Das stimmt nicht.", None),
        ("The answer is A, sorry, C.", None),
        ("La réponse est A. Pardon, C.", None),
        ("La respuesta es A. Perdón, es C.", None),
        ("La risposta è A. Anzi, C.", None),
        ("A resposta é A. Aliás, C.", None),
        ("The answer is A. (Should be C.)", None),
        ("The answer is A. More specifically, C.", None),
        ("The answer is A. More precisely: (C).", None),
        ("The answer is A. It should have been C.", None),
        ("The answer is A. C, actually.", None),
        ("The answer is A. Well, C.", None),
        ("The answer is A. Or C.", None),
        ("The answer is A... or C?", None),
        ("The answer is A. Still, C is better.", None),
        ("The answer is A. Is it?", None),
        ("Saying that A is the answer would be a mistake.", None),
    ],
)
def test_an_answer_that_the_next_words_correct_is_not_read(text: str, read: str | None) -> None:
    assert label(text) == read


@pytest.mark.parametrize(
    "text",
    [
        "La réponse est C, non A",
        "La réponse est C, et non A.",
        "La respuesta es C, no A",
        "Die Antwort ist C, nicht A.",
        "La réponse est C. C'est faux que Berlin soit en France.",
        "La respuesta es C. Es incorrecto decir que es Berlín.",
        "La réponse est C, enfin je crois.",
        "Die Antwort ist C. Eigentlich eine leichte Frage.",
    ],
)
def test_another_choice_that_is_denied_behind_the_answer_takes_nothing_back(text: str) -> None:
    assert label(text) == "C"


@pytest.mark.parametrize(
    "behind",
    [
        "Not A, as it is in Germany.",
        "Not so hard!",
        "No kidding.",
        "Kidding aside, it lies on the Seine.",
        "I'm not joking.",
        "Still, Lyon is larger than many think.",
        "Well, it lies on the Seine.",
        "It should be known to all.",
        "Do not forget that it lies on the Seine.",
        "Many change their mind.",
        "More specifically, it lies on the Seine.",
        "We may ignore that Lyon is large, too.",
        "Let's re-examine the other choices: A and B lie elsewhere.",
        "So I cannot give any other answer.",
        "Let's reconsider the river to be safe. Yes, that is right.",
    ],
)
def test_words_that_only_sound_like_taking_back_take_nothing_back(behind: str) -> None:
    assert label(f"The answer is C. {behind}") == "C"


def test_an_answer_or_rather_another_is_ambiguous() -> None:
    assert extract("The answer is A, or rather C.", CITIES) == Extraction(None, "ambiguous", ("A", "C"))


@pytest.mark.parametrize(
    "text",
    [
        "The answer is A. This contradicts what I found; C is right.",
        "Answer: A\n\nOn the map, Paris lies in France. So it seems that C is correct.",
    ],
)
def test_an_answer_behind_which_another_choice_is_called_right_is_ambiguous(text: str) -> None:
    assert extract(text, CITIES) == Extraction(None, "ambiguous", ("A", "C"))


@pytest.mark.parametrize(
    "behind",
    [
        "A is also correct, but less precise.",
        "A is right above B.",
        "For Germany, A is correct.",
        "If it were about Germany, A is correct.",
        "Some say that A is correct, which is wrong.",
    ],
)
def test_a_choice_that_is_right_beside_the_answer_or_elsewhere_contradicts_nothing(behind: str) -> None:
    assert label(f"The answer is C. {behind}") == "C"


def test_others_may_be_right_beside_all_of_the_above_or_the_exception() -> None:
    above = ("It is red", "It is hot", "It is far", "All of the above")
    assert label("The answer is D. A is also correct.", above) == "D"
    assert label("The answer is D. A is correct. B is also correct.", above) == "D"
    asked = "Which of these is NOT a correct name?"
    assert extract("The answer is C. A is also correct.", CITIES, asked).label == "C"


@pytest.mark.parametrize(
    "mistake",
    [
        "A common misconception is that the answer is A.",
        "A widespread misunderstanding is that A is the correct answer.",
        "The most common error is thinking that the answer is A.",
        "It is a myth that the answer is A.",
        "It would be a fallacy to conclude that the answer is A.",
        "Many fall into the trap of believing that the answer is A.",
        "Careless readers will conclude that the answer is A.",
        "Beware of thinking that the answer is A.",
        "Be careful: it is easy to think the answer is A.",
        "Une erreur fréquente est de croire que la réponse est A.",
        "Un error común es pensar que la respuesta es A.",
        "कुछ लोग सोचते हैं कि उत्तर A है।",
    ],
)
def test_an_answer_that_is_called_a_mistake_is_none(mistake: str) -> None:
    assert label(mistake) is None
    assert label(f"The correct answer is C. {mistake}") == "C"


@pytest.mark.parametrize(
    "text",
    [
        "This is a common misconception. The answer is C.",
        "The standard error is small, so the answer is C.",
        "There is no error in this: the answer is C.",
        "Beware of the units. The answer is C.",
        "It is a trap question, but the answer is C.",
    ],
)
def test_a_mistake_that_is_another_sentence_or_clause_denies_no_answer(text: str) -> None:
    assert label(text) == "C"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("الإجابة الصحيحة هي C.", "الإجابة A خاطئة لأن برلين في ألمانيا."),
        ("پاسخ صحیح C است.", "پاسخ A نادرست است زیرا برلین در آلمان است."),
        ("درست جواب C ہے۔", "جواب A غلط ہے کیونکہ برلن جرمنی میں ہے۔"),
        ("התשובה הנכונה היא C.", "תשובה A שגויה כי ברלין בגרמניה."),
        ("सही उत्तर C है।", "उत्तर A गलत है क्योंकि बर्लिन जर्मनी में है।"),
        ("সঠিক উত্তর C।", "উত্তর A ভুল কারণ বার্লিন জার্মানিতে।"),
        ("சரியான பதில் C.", "பதில் A தவறு."),
        ("సరైన సమాధానం C.", "సమాధానం A తప్పు."),
        ("સાચો જવાબ C છે.", "જવાબ A ખોટો છે."),
        ("ਸਹੀ ਜਵਾਬ C ਹੈ।", "ਜਵਾਬ A ਗਲਤ ਹੈ।"),
        ("ಸರಿಯಾದ ಉತ್ತರ C.", "ಉತ್ತರ A ತಪ್ಪು."),
        ("ശരിയായ ഉത്തരം C ആണ്.", "ഉത്തരം A തെറ്റാണ്."),
        ("คำตอบที่ถูกต้องคือ C", "คำตอบ A ผิด เพราะเบอร์ลินอยู่ในเยอรมนี"),
        ("Doğru cevap C'dir.", "Cevap A (Berlin) yanlıştır."),
        ("Đáp án đúng là C.", "Đáp án A (Berlin) sai."),
        ("正解はCです。", "正解はAのように見えますが、違います。"),
        ("正解はCである。", "答えはA以外です。"),
        ("정답은 C입니다.", "정답은 A라고 생각할 수 있지만 아닙니다."),
        ("정답은 C이다.", "정답은 A일 수 없습니다."),
    ],
)
def test_an_answer_of_which_its_sentence_says_that_it_is_wrong_is_none(right: str, wrong: str) -> None:
    """Where the verb comes last, "the answer A is wrong" begins like "the answer is A"."""
    assert label(wrong) is None
    assert label(right) == "C"
    assert label(f"{right}\n\n{wrong}") == "C"


@pytest.mark.parametrize("text", ["答えはA。いや、Bです。", "정답은 A입니다. 아니요, B입니다.", "答案是A。不，是B。"])
def test_a_no_behind_the_answer_takes_it_back_in_east_asian_languages(text: str) -> None:
    assert extract(text, CITIES).rule == "retracted"
    assert label(f"{text.partition('A')[0]}A。") == "A"


@pytest.mark.parametrize(
    "text",
    [
        "The closest option is C, but it is not the correct answer. So the question may have an error.",
        "The closest option is C, Paris, which is not the correct answer.",
        "The answer is C, but it's not right.",
        "The answer is (C), which is not correct.",
        "The closest option is Paris, though it isn't the correct one.",
        "The answer is C. But it is not the correct answer.",
        "The closest option is C, but it's incorrect.",
        "The closest option would be (C), but it is still wrong, so none fits.",
        "The closest option is (C), but it's not a correct choice.",
        "The answer is:\nC. Paris (This option is not correct because it lies in France.)",
        "The answer is (C) Paris (which is wrong).",
    ],
)
def test_a_choice_that_its_sentence_calls_not_the_right_one_is_no_answer(text: str) -> None:
    assert extract(text, CITIES).rule == "retracted"
    assert label(f"{text} The answer is B.") == "B"
    assert extract(text, CITIES, "Which statement is not correct?").label == "C"


@pytest.mark.parametrize(
    "text",
    [
        "The answer is C, which is not in Germany.",
        "The answer is C, but it is not the right city for a beach.",
        "The answer is C rather than A, which is not correct.",
        "The answer is C. A is tempting, but it is not the correct answer.",
        "The closest option is C, but it's not exactly correct.",
        "The answer is C, but it is wrong to think of it as a port.",
        "The answer is C (it is not as old as A).",
        "The answer is C (option A is incorrect).",
    ],
)
def test_what_is_not_right_for_something_or_of_another_choice_takes_no_answer_back(text: str) -> None:
    assert label(text) == "C"


@pytest.mark.parametrize("wrong", ["This answer is incorrect.", "But that answer was wrong.", "It's not correct."])
def test_an_answer_of_which_the_next_sentence_says_that_it_is_wrong_is_none(wrong: str) -> None:
    assert extract(f"The answer is B. {wrong}", CITIES) == Extraction(None, "retracted", ("B",))
    assert label(f"The answer is B. {wrong} The correct option would have been C.") == "C"
    assert label(f"Is it B? {wrong} The answer should have been C.") == "C"
