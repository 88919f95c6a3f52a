#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 492990f7872e0f9aff7ea7d4cbec9639fca0cc19 tests/test_grade.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_grade.py b/tests/test_grade.py
index 83f6623..7460bc2 100644
--- a/tests/test_grade.py
+++ b/tests/test_grade.py
@@ -22,6 +22,10 @@ def test_honor_below_the_threshold():
     assert not honor(Student("ann", 80), 90)
 
 
+def test_honor_exactly_at_the_threshold():
+    assert honor(Student("ann", 90), 90)
+
+
 def test_honor_needs_a_name():
     with pytest.raises(ValueError):
         honor(Student("", 90), 90)
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_grade.py
: '>>>>> End Test Output'
git checkout 492990f7872e0f9aff7ea7d4cbec9639fca0cc19 tests/test_grade.py
