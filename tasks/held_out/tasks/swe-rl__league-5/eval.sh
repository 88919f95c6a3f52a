#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout fd16ef8a3129c6327a8bdd07a0d626ec9bc1cca0 tests/test_score.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_score.py b/tests/test_score.py
index ad8d80d..08a6abe 100644
--- a/tests/test_score.py
+++ b/tests/test_score.py
@@ -17,6 +17,10 @@ def test_ratio_of_whole_numbers():
     assert ratio(Score(4, 2)) == 2
 
 
+def test_ratio_keeps_the_decimals():
+    assert ratio(Score(5, 2)) == 2.5
+
+
 def test_ratio_without_a_loss():
     assert ratio(Score(5)) == 5
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_score.py
: '>>>>> End Test Output'
git checkout fd16ef8a3129c6327a8bdd07a0d626ec9bc1cca0 tests/test_score.py
