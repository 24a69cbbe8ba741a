"""Members that went without a word."""

from dromon.engines.kubernetes.pod.losses import GONE, end_of
from dromon.lifecycle import events as ev

LOST = [ev.MemberEvicted("worker-1", 1, GONE), ev.MemberEvicted("worker-1", 2, GONE)]


def said(history, dies_whole=True):
    return end_of("worker-1", 3, history, dies_whole=dies_whole, now=5.0)


def test_a_lost_pod_is_nobodys_fault():
    assert said([]) == ev.MemberEvicted("worker-1", 3, GONE)
    assert said(LOST[:1]) == ev.MemberEvicted("worker-1", 3, GONE)


def test_the_third_in_a_row_is_taken_for_want_of_memory():
    event = said(LOST)
    assert isinstance(event, ev.MemberExited)
    assert event.exit["cause"] == "out_of_memory"
    assert (event.member, event.run) == ("worker-1", 3)


def test_only_where_containers_die_whole():
    assert said(LOST, dies_whole=False) == ev.MemberEvicted("worker-1", 3, GONE)


def test_an_end_with_a_word_between_them_begins_the_count_anew():
    ended = ev.MemberExited("worker-1", 2, {"code": None, "signal": 15, "cause": "evicted"})
    assert isinstance(said([LOST[0], ended]), ev.MemberEvicted)
    assert isinstance(said([LOST[0], ended, LOST[1]]), ev.MemberEvicted)


def test_others_do_not_count():
    others = [ev.MemberEvicted("worker-0", run, GONE) for run in (1, 2)]
    assert isinstance(said(others), ev.MemberEvicted)
