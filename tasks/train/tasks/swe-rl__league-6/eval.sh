#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 39f999a0ce3b2c3429d6be01eeb370153a44e419 tests/test_score.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_score.py b/tests/test_score.py
index 8a506ac..08a6abe 100644
--- a/tests/test_score.py
+++ b/tests/test_score.py
@@ -27,3 +27,11 @@ def test_ratio_without_a_loss():
 
 def test_rest_at_the_limit():
     assert rest(Score(5), 5) == 0
+
+
+def test_rest_below_the_limit():
+    assert rest(Score(2), 5) == 3
+
+
+def test_rest_is_never_negative():
+    assert rest(Score(9), 5) == 0
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_score.py
: '>>>>> End Test Output'
git checkout 39f999a0ce3b2c3429d6be01eeb370153a44e419 tests/test_score.py
