#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 24c18b0b20668c16c685ad9a63c0afd26042737e tests/test_exam.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_exam.py b/tests/test_exam.py
index 0c36a68..9a17dc8 100644
--- a/tests/test_exam.py
+++ b/tests/test_exam.py
@@ -37,3 +37,7 @@ def test_complete_when_every_section_is_final():
 
 def test_complete_is_false_for_nothing():
     assert not complete([])
+
+
+def test_complete_needs_every_section():
+    assert not complete([*EXAM, Section(4, final=False)])
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_exam.py
: '>>>>> End Test Output'
git checkout 24c18b0b20668c16c685ad9a63c0afd26042737e tests/test_exam.py
