"""A form of a page is filled with what was typed into it before, and nothing else of the page
changes."""

from __future__ import annotations

from mmo_trio.console.form_filling import fill_form

PAGE = """<!doctype html>
<p title="a > b">é &amp; <b>x</b></p>
<form method="post" action="/other"><input name="note" value=""></form>
<details data-keep id="d"><summary>Open</summary>
<form method="post" action="/act/1%202">
  <input type="hidden" name="form_token" value="fresh"><input type="hidden" name="number" value="2">
  <input id="note" name="note" type="text" value="" required="">
  <textarea name="evidence" rows="3"></textarea>
  <label><input type="checkbox" name="a"> a</label>
  <label><input type="checkbox" name="b" checked> b</label>
  <select name="outcome"><option value="" selected>choose</option>
    <option value="success">success</option></select>
</form>
</details>
<details><summary>More</summary></details>
<form method="post" action="/another"><input name="note" value="y"></form>
"""
FILLED = """<!doctype html>
<p title="a > b">é &amp; <b>x</b></p>
<form method="post" action="/other"><input name="note" value=""></form>
<details data-keep id="d" open><summary>Open</summary>
<form method="post" action="/act/1%202">
  <input type="hidden" name="form_token" value="fresh"><input type="hidden" name="number" value="1">
  <input id="note" name="note" type="text" value="&#34;ü&#34; &lt;b&gt;" required="">
  <textarea name="evidence" rows="3">&lt;/textarea&gt;
line 2</textarea>
  <label><input type="checkbox" name="a" checked> a</label>
  <label><input type="checkbox" name="b"> b</label>
  <select name="outcome"><option value="">choose</option>
    <option value="success" selected>success</option></select>
</form>
</details>
<details><summary>More</summary></details>
<form method="post" action="/another"><input name="note" value="y"></form>
"""
FIELDS = (
    ("form_token", "old"),
    ("number", "1"),
    ("note", '"ü" <b>'),
    ("evidence", "</textarea>\nline 2"),
    ("a", "on"),
    ("outcome", "success"),
)


def test_the_form_of_the_action_is_filled_and_shown() -> None:
    assert fill_form(PAGE, "/act/1 2", FIELDS, fresh=frozenset({"form_token"})) == FILLED


def test_a_page_without_the_form_stays_as_it_is() -> None:
    assert fill_form(PAGE, "/act/1", FIELDS, fresh=frozenset({"form_token"})) == PAGE
