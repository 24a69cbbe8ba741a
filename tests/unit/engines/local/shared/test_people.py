"""Names and groups by number, as this system has them."""

import grp
import os
import pwd

from dromon.engines.local.shared.people import People, person


def test_somebody_is_who_the_system_says():
    known = pwd.getpwuid(os.getuid())
    found = person(os.getuid())
    assert (found.uid, found.name) == (os.getuid(), known.pw_name)
    assert grp.getgrgid(known.pw_gid).gr_name in found.groups


def test_a_number_without_a_name_is_its_own_name_and_in_no_group():
    unknown = 2**31 - 7
    found = People().of(unknown)
    assert (found.name, found.groups) == (str(unknown), frozenset())
