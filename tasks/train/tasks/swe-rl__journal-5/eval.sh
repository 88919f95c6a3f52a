#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout d05b90f9b86779a4531fc267f4e46148d77843df tests/test_page.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_page.py b/tests/test_page.py
index e1d0e8e..b982ecd 100644
--- a/tests/test_page.py
+++ b/tests/test_page.py
@@ -17,6 +17,10 @@ def test_last_number_of_nothing():
     assert last_number([]) == 0
 
 
+def test_last_number_of_three_pages():
+    assert last_number([Page(1), Page(2), Page(3)]) == 3
+
+
 def test_index_of_nothing():
     assert index([]) == []
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_page.py
: '>>>>> End Test Output'
git checkout d05b90f9b86779a4531fc267f4e46148d77843df tests/test_page.py
