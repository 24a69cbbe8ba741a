from pathlib import Path

from dromon.spec.model import Environment, Job, Resources, Role, Volume
from dromon.spec.reference import render

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "job-file.md"


def test_the_reference_page_is_the_one_the_models_give() -> None:
    again = "run `python -m dromon.spec.reference docs/reference/job-file.md`"
    assert PAGE.read_text(encoding="utf-8") == render(), again


def test_every_key_has_a_row() -> None:
    page = render()
    for model in (Job, Role, Resources, Environment, Volume):
        for key, field in model.model_fields.items():
            assert f"| `{key}` |" in page
            assert field.description
