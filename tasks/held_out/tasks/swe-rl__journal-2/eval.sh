#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout f3a5d10055f7fc43afe0d1ed846ef4f5144ae441 tests/test_text.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_text.py b/tests/test_text.py
index 9d4a908..aa11c7d 100644
--- a/tests/test_text.py
+++ b/tests/test_text.py
@@ -21,6 +21,10 @@ def test_word_count_of_nothing():
     assert word_count("") == 0
 
 
+def test_word_count_of_a_sentence():
+    assert word_count("it rained all day") == 4
+
+
 def test_visible_with_title_and_body():
     assert visible(Entry("rain", "all day"))
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_text.py
: '>>>>> End Test Output'
git checkout f3a5d10055f7fc43afe0d1ed846ef4f5144ae441 tests/test_text.py
