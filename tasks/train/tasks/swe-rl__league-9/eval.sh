#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 59bccc8af78248d681624de5931fdb4376794872 tests/test_ticket.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_ticket.py b/tests/test_ticket.py
index 8b84b7c..ad06ee9 100644
--- a/tests/test_ticket.py
+++ b/tests/test_ticket.py
@@ -31,3 +31,7 @@ def test_sale_before_every_day():
 
 def test_sale_is_over_for_nothing():
     assert not sale([], 2)
+
+
+def test_sale_needs_every_day_to_come():
+    assert not sale([Ticket(20, day=4), Ticket(20, day=1)], 2)
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_ticket.py
: '>>>>> End Test Output'
git checkout 59bccc8af78248d681624de5931fdb4376794872 tests/test_ticket.py
