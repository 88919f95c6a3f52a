#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout f4c1bbd0ad55611a48bc46e5260d39e3113f0580 tests/test_exam.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_exam.py b/tests/test_exam.py
index 47f5c6a..9a17dc8 100644
--- a/tests/test_exam.py
+++ b/tests/test_exam.py
@@ -27,6 +27,10 @@ def test_best_of_one_section():
     assert best([Section(7)]) == 7
 
 
+def test_best_section():
+    assert best(EXAM) == 30
+
+
 def test_complete_when_every_section_is_final():
     assert complete(EXAM)
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_exam.py
: '>>>>> End Test Output'
git checkout f4c1bbd0ad55611a48bc46e5260d39e3113f0580 tests/test_exam.py
