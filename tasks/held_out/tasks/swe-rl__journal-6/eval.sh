#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout e7b469c0bbf7fca5a2483eae6b475453214e0b36 tests/test_page.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_page.py b/tests/test_page.py
index 49009d8..b982ecd 100644
--- a/tests/test_page.py
+++ b/tests/test_page.py
@@ -23,3 +23,8 @@ def test_last_number_of_three_pages():
 
 def test_index_of_nothing():
     assert index([]) == []
+
+
+def test_index_starts_with_most_pictures():
+    journal = [Page(1, picture=2), Page(2, picture=7), Page(3)]
+    assert [page.number for page in index(journal)] == [2, 1, 3]
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_page.py
: '>>>>> End Test Output'
git checkout e7b469c0bbf7fca5a2483eae6b475453214e0b36 tests/test_page.py
