#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 35f402b257dc625c9ddff261ef8036e1c06398e1 tests/test_budget.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_budget.py b/tests/test_budget.py
index aa0b25d..6db1f54 100644
--- a/tests/test_budget.py
+++ b/tests/test_budget.py
@@ -19,6 +19,10 @@ def test_top_lines_cuts_the_list():
     assert len(top_lines(BUDGET, 2)) == 2
 
 
+def test_top_lines_starts_with_the_largest():
+    assert [line.name for line in top_lines(BUDGET, 2)] == ["rent", "travel"]
+
+
 def test_warning_above_the_share():
     assert warning(Line("rent", 100, 90), 0.5)
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_budget.py
: '>>>>> End Test Output'
git checkout 35f402b257dc625c9ddff261ef8036e1c06398e1 tests/test_budget.py
