#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 4fe93a27d6e89b470a495a6f9716938109ed409a tests/test_text.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_text.py b/tests/test_text.py
index c0787c2..aa11c7d 100644
--- a/tests/test_text.py
+++ b/tests/test_text.py
@@ -9,6 +9,10 @@ def test_fit_refuses_long_text():
     assert not fit("snow and rain", 10)
 
 
+def test_fit_text_as_wide_as_the_line():
+    assert fit(" snow ", 4)
+
+
 def test_fit_empty_text():
     assert fit("  ", 0)
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_text.py
: '>>>>> End Test Output'
git checkout 4fe93a27d6e89b470a495a6f9716938109ed409a tests/test_text.py
