#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout cc5cde7d747ba5f143a380b98d270052a0ffef98 tests/test_exam.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_exam.py b/tests/test_exam.py
index 8db3e92..9a17dc8 100644
--- a/tests/test_exam.py
+++ b/tests/test_exam.py
@@ -11,6 +11,14 @@ def test_permit_refuses_who_has_not_paid():
     assert not permit(EXAM, 20, False)
 
 
+def test_permit_is_free_without_a_fee():
+    assert permit(EXAM, 0, False)
+
+
+def test_permit_paid_fee():
+    assert permit(EXAM, 20, True)
+
+
 def test_best_of_nothing():
     assert best([]) == 0
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_exam.py
: '>>>>> End Test Output'
git checkout cc5cde7d747ba5f143a380b98d270052a0ffef98 tests/test_exam.py
