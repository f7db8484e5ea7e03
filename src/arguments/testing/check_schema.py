"""Validates settings files with Python's jsonschema: check_schema.py SCHEMA CASES. CASES is a JSON list of [settings, is_valid].
Exit codes: 0 the schema decides as stated, 1 it does not (the cases are printed), 77 jsonschema is not installed."""
import json
import sys

try:
    from jsonschema import Draft202012Validator
except ImportError:
    sys.exit(77)

with open(sys.argv[1], encoding="utf-8") as file:
    schema = json.load(file)
with open(sys.argv[2], encoding="utf-8") as file:
    cases = json.load(file)
Draft202012Validator.check_schema(schema)
validator = Draft202012Validator(schema)
wrong = [(settings, is_valid) for settings, is_valid in cases if validator.is_valid(settings) != is_valid]
for settings, is_valid in wrong:
    print(f"{json.dumps(settings)} should be {'valid' if is_valid else 'refused'}",
          *(error.message for error in validator.iter_errors(settings)), sep="\n    ")
print(f"{len(cases)} settings files, {len(wrong)} decided wrongly")
sys.exit(1 if wrong or len(cases) < 100 else 0)
