#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 1b822b0b2ed68e4b714308dfcc45ffc08110bcfd tests/test_budget.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_budget.py b/tests/test_budget.py
index 269caf2..6db1f54 100644
--- a/tests/test_budget.py
+++ b/tests/test_budget.py
@@ -11,6 +11,10 @@ def test_valid_budget():
     assert valid(BUDGET)
 
 
+def test_valid_needs_a_plan_for_every_line():
+    assert not valid([*BUDGET, Line("gift", 0)])
+
+
 def test_top_lines_cuts_the_list():
     assert len(top_lines(BUDGET, 2)) == 2
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_budget.py
: '>>>>> End Test Output'
git checkout 1b822b0b2ed68e4b714308dfcc45ffc08110bcfd tests/test_budget.py
