#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 3dec0d538b3709bc3b3effb53352437f092e389b tests/test_text.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_text.py b/tests/test_text.py
index 1ee850a..aa11c7d 100644
--- a/tests/test_text.py
+++ b/tests/test_text.py
@@ -31,3 +31,11 @@ def test_visible_with_title_and_body():
 
 def test_visible_is_false_without_anything():
     assert not visible(Entry(" "))
+
+
+def test_visible_needs_a_body():
+    assert not visible(Entry("rain"))
+
+
+def test_visible_needs_a_title():
+    assert not visible(Entry(" ", "all day"))
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_text.py
: '>>>>> End Test Output'
git checkout 3dec0d538b3709bc3b3effb53352437f092e389b tests/test_text.py
