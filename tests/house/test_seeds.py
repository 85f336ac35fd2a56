from mars_env.seeds import derive_seed


def test_seeds_stay_what_they_are():
    assert derive_seed(0, "aime/3#1", "0.2") == 1974546114378451968
    assert derive_seed("é ∑ 😀") == 6545869755919025954


def test_texts_with_lone_surrogates_have_seeds():
    assert len({derive_seed(text) for text in ("\ud800", "\udfff", "?", "")}) == 4
